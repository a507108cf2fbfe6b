"""Audits of engines, and of texts of others: texts in growing batches, the evidence after each, and what it came to."""

from __future__ import annotations

import importlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from otspec.auditing.engines.adapters.function import Completes, as_engine
from otspec.auditing.engines.engine import DEFAULT_PROMPTS, Engine, EngineDied, Sampling, Text, as_text
from otspec.auditing.engines.exact_law import ExactLawTest
from otspec.auditing.engines.format_checks import compare, finding_of
from otspec.auditing.engines.judge import LAW, Batch, Judge, PromptCell, conclude, next_batch
from otspec.auditing.engines.laws import Laws
from otspec.auditing.engines.report import Control, Divergence, EngineAudit
from otspec.auditing.engines.settings import EngineAuditOptions, EngineAuditSettings
from otspec.auditing.engines.storage import Texts
from otspec.auditing.engines.two_sample import TwoSampleTest
from otspec.auditing.evidence import at_look
from otspec.auditing.outcome import Test
from otspec.auditing.report import settings_text
from otspec.auditing.settings import Progress, check_progress, no_progress
from otspec.errors import DataError, ProblemError, UnknownSolver, one_line

LOOKS = 4
"""A bias of the law is not believed before so many: until then requests may turn out not to be independent."""


Draw = Callable[[PromptCell, int, int], Batch]
"""From a cell, how many texts and the number of the look to what was drawn."""


class Source:
    """Texts of an engine, each request asked for once: those of a file are there already."""

    def __init__(self, engine: Engine, texts: Texts, settings: EngineAuditSettings) -> None:
        self._engine, self._texts, self._settings = engine, texts, settings

    def get(
        self, prompt: str, count: int, length: int, sampling: Sampling, kind: str, place: tuple[int, int]
    ) -> list[Text]:
        """Texts of a prompt; `kind` is "drafted", "plain" or "control", `place` the number of cell and look."""
        kinds = ("drafted", "plain", "control")
        seeds = np.random.SeedSequence((self._settings.seed, kinds.index(kind), *place))
        seed = int(seeds.generate_state(1)[0]) % 2**31

        def make() -> list[Text]:
            try:
                drawn = self._engine.texts(prompt, count, length, sampling, seed, drafts=kind == "drafted")
                return [as_text(one) for one in drawn]
            except (DataError, ImportError, ProblemError, UnknownSolver):
                raise
            except Exception as error:
                request = f"{count} texts of {length} tokens after {prompt!r}, {sampling}, {kind}"
                said = f"{type(error).__name__}: {one_line(error)}"
                raise EngineDied(f"{self._engine.name} died at {request}: {said}") from error

        drawn = self._texts.get((kind, *place, count), make)
        if len(drawn) != count:
            raise ProblemError(
                f"{self._engine.name} was asked for {count} texts after {prompt!r} and gave {len(drawn)}"
            )
        return drawn

    def batch(self, judge: Judge) -> Draw:
        """What draws a batch of a cell for this judge."""

        def draw(cell: PromptCell, count: int, look: int) -> Batch:
            length, place = self._settings.length, (cell.number, look)
            drafted, plain = (
                self.get(cell.prompt, count, length, cell.sampling, kind, place) for kind in ("drafted", "plain")
            )
            other = judge.control_sampling(cell.sampling)
            control = [] if other is None else self.get(cell.prompt, count, length, other, "control", place)
            return Batch(drafted, plain, control)

        return draw


def audit_engine(
    engine: Engine | Completes,
    samplings: Sequence[Sampling] = (Sampling(),),
    prompts: Sequence[str] = DEFAULT_PROMPTS,
    *,
    laws: Laws | None = None,
    store: Path | None = None,
    about: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
    **options: Unpack[EngineAuditOptions],
) -> EngineAudit:
    """Find out whether an engine's text with drafts is the target's own.

    Parameters
    ----------
    engine : Engine or callable
        What is audited: an engine, which is not closed, or a function of the prompt, the number of texts, their length,
        the `Sampling`, the seed and ``drafts=`` to texts, as `Engine.texts` has them.
    samplings : sequence of Sampling
        Each is audited; greedy text is compared in any case.
    prompts : sequence of str
    laws : Laws, optional
        The exact laws, as `ModelLaws` has them; without them text with drafts is compared with text without.
    store : Path, optional
        A file that keeps the texts: an audit that was interrupted goes on from it.
    about : mapping, optional
        What else the texts depend on, such as the engine's settings; a file with other ones is refused.
    progress : callable
        Is called with the number of texts drawn, and the budget.
    **options
        The fields of `EngineAuditSettings`.

    Returns
    -------
    EngineAudit

    Raises
    ------
    ProblemError
        If a setting is out of its range, there is no prompt or no sampling, or the engine answers what it must not.
    EngineDied
        If the engine fails at a request.
    DataError
        If the file has other texts.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.auditing.engines import FunctionLaws, Sampling, audit_engine
    >>> def engine(prompt, count, length, sampling, seed, drafts):
    ...     law = [1, 0, 0] if sampling.greedy else [0.7, 0.2, 0.1]
    ...     return np.random.default_rng((seed, drafts)).choice(3, (count, length), p=law)
    >>> audit = audit_engine(engine, prompts=[""], laws=FunctionLaws(lambda before: [0.7, 0.2, 0.1]))
    >>> audit.verdict.value
    'no evidence'
    >>> def forgets(prompt, count, length, sampling, seed, drafts):  # the temperature, with drafts
    ...     return engine(prompt, count, length, Sampling() if drafts else sampling, seed, drafts)
    >>> laws = FunctionLaws(lambda before: [0.7, 0.2, 0.1])
    >>> audit_engine(forgets, prompts=[""], laws=laws).outcome.divergences[0].cause
    'rule'
    """
    audited, settings = as_engine(engine), EngineAuditSettings(**options)
    acting = _own_config(audited, laws)
    check_progress(progress)
    if not (isinstance(samplings, Sequence) and samplings and all(isinstance(one, Sampling) for one in samplings)):
        raise ProblemError("there is no sampling; pass a list of one such as Sampling(1.0), or several")
    listed = isinstance(prompts, Sequence) and not isinstance(prompts, str)
    if not (listed and prompts and all(isinstance(prompt, str) for prompt in prompts)):
        raise ProblemError("there are no prompts; pass a list of texts")
    drawn, distinct = [one for one in dict.fromkeys(samplings) if not one.greedy], list(dict.fromkeys(prompts))
    pairs = enumerate(itertools.product(drawn, distinct))
    cells = [PromptCell(number, prompt, sampling) for number, (sampling, prompt) in pairs]
    if cells and settings.texts < len(cells):
        raise ProblemError(
            f"texts is {settings.texts}, and there are {len(cells)} pairs of prompt and sampling; ask for more"
        )
    header = {
        "otspec": importlib.import_module("otspec").__version__,
        "engine": [audited.name, audited.version, audited.method],
        "prompts": list(prompts),
        "samplings": [[one.temperature, one.top_k, one.top_p, one.min_p] for one in samplings],
        **settings.drawing(),
        **({"own_config": acting} if acting else {}),
        **dict(about or {}),
    }
    judge: Judge = TwoSampleTest(cells, settings) if laws is None else ExactLawTest(cells, settings, laws)
    with Texts(None if store is None else Path(store), header) as texts:
        source = Source(audited, texts, settings)
        divergences = list(_greedy(source, distinct, laws, settings))
        tests, looks = watch(judge, source.batch(judge), settings.texts // max(len(cells), 1), settings, progress)
        acceptance = None
        with suppress(Exception):  # which says nothing of the texts: they are not lost with it
            acceptance = audited.acceptance()
    found = finding_of(divergences, len(distinct))
    outcome = conclude(judge, tests, looks, divergences, found, acceptance, settings)
    return EngineAudit(outcome, settings, audited.name, audited.version, audited.method, acting)


def _own_config(engine: Engine, laws: Laws | None) -> dict[str, Any]:
    """What of the target's own generation configuration acts on both sides of an audit.

    Raises
    ------
    ProblemError
        If it acts on one of them alone, or otherwise, as far as they say.
    """
    sides = [getattr(one, "own_config", None) for one in (engine, laws)]
    said = [dict(one) for one in sides if one is not None]
    if said and any(one != said[0] for one in said):
        raise ProblemError(
            f"of the target's own generation configuration the engine has {settings_text(said[0])} in force, and the "
            f"exact law {settings_text(said[1])}; make both with the same own_config"
        )
    return said[0] if said else {}


def _greedy(
    source: Source, prompts: Sequence[str], laws: Laws | None, settings: EngineAuditSettings
) -> Iterator[Divergence]:
    length = settings.greedy_length
    for number, prompt in enumerate(prompts):
        plain, drafted = (
            source.get(prompt, 1, length, Sampling(0.0), kind, (number, 2**31)) for kind in ("plain", "drafted")
        )
        if found := compare(prompt, plain[0], drafted[0], length, laws, settings.tolerance):
            yield found


def watch(
    judge: Judge, draw: Draw, each: int, settings: EngineAuditSettings, progress: Progress
) -> tuple[tuple[Test, ...], int]:
    """Draw until the evidence decides, or there are `each` texts of every cell; the tests, and the number of looks."""
    tests: tuple[Test, ...] = ()
    look = done = 0
    while judge.cells and done < each:
        count = next_batch(done, each, settings.batch)
        for cell in judge.cells:
            judge.add(cell, draw(cell, count, look))
            progress(judge.texts, each * len(judge.cells))
        done, look, tests = done + count, look + 1, judge.update()
        if judge.doubt() is not None:
            break
        if not settings.all_texts and any(test.rejected for test in tests):
            law = any(test.rejected and test.name == LAW for test in tests)
            if not law or (look >= LOOKS and _bounded(judge, settings, look)):
                break
    return tests, look


def _bounded(judge: Judge, settings: EngineAuditSettings, looks: int) -> bool:
    """Whether some total variation is known to be above 0."""
    return any(place.lower > 0 for place in judge.places(at_look(1 - settings.confidence, looks - 1)))


SHARE = 0.2
"""Of the control's texts, that are all the same."""


def audit_texts(
    drafted: Sequence[Any],
    plain: Sequence[Any] | None = None,
    *,
    laws: Laws | None = None,
    prompt: str = "",
    **options: Unpack[EngineAuditOptions],
) -> EngineAudit:
    """Find out whether texts with drafts have the law of texts without, or an exact law.

    Parameters
    ----------
    drafted, plain : sequence
        Independent texts of one prompt, with drafts and without, in the order in which they were drawn: strings, their
        tokens by number, or of the type `Text`.
    laws : Laws, optional
        The exact laws.  Without them `plain` is needed, and as many of both are compared.
    prompt : str
        What the laws are asked for.
    **options
        The fields of `EngineAuditSettings`; all texts are looked at, unless less suffice.

    Raises
    ------
    ProblemError
        If there are no texts, or what is there is no text.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.auditing.engines import audit_texts
    >>> rng = np.random.default_rng(0)
    >>> plain, drafted = rng.integers(2, size=(1000, 3)), rng.integers(3, size=(1000, 3))
    >>> audit_texts(drafted, plain).verdict.value
    'not lossless'
    """
    if isinstance(drafted, str) or isinstance(plain, str) or not isinstance(drafted, Iterable):
        raise ProblemError("pass a list of texts with drafts, and one of texts without; each a string or its tokens")
    found, without = ([as_text(one) for one in texts] for texts in (drafted, () if plain is None else plain))
    if laws is None and plain is None:
        raise ProblemError("there is nothing to compare the texts with; pass texts without drafts, or the exact law")
    count = len(found) if laws is not None else min(len(found), len(without))
    if not count:
        raise ProblemError("there are no texts; pass some hundreds with drafts, and as many without")
    longest = max((len(one.tokens) for one in (*found, *without)), default=0) or 8
    values: dict[str, Any] = {"texts": count, "length": longest, **options}
    settings = EngineAuditSettings(**values)
    cells = [PromptCell(0, prompt, Sampling())]
    judge: Judge
    if laws is None:
        control, rule = repeated(without, np.random.default_rng((settings.seed, 2)))
        judge = TwoSampleTest(cells, settings, control=rule)
    else:
        control, judge = [], ExactLawTest(cells, settings, laws)
    done = 0

    def draw(cell: PromptCell, count: int, look: int) -> Batch:
        nonlocal done
        first, done = done, done + count
        return Batch(found[first:done], without[first:done], control[first:done])

    tests, looks = watch(judge, draw, min(count, settings.texts), settings, no_progress)
    outcome = conclude(judge, tests, looks, (), (), None, settings)
    return EngineAudit(outcome, settings, "texts", "", f"{len(found):,} with drafts, {len(without):,} without")


def repeated(plain: Sequence[Text], rng: np.random.Generator) -> tuple[list[Text], Control]:
    """Texts of a rule that puts out the most frequent text too often: the texts without drafts, each one place on."""
    (usual, count) = Counter(plain).most_common(1)[0]
    off = SHARE * (1 - count / len(plain))
    shifted = [*plain[1:], plain[0]]
    rule = Control(f"texts without drafts, {SHARE:.0%} of them replaced by the most frequent one", off, None)
    return [usual if coin < SHARE else text for text, coin in zip(shifted, rng.random(len(plain)), strict=True)], rule

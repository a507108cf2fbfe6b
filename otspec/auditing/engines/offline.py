"""Texts that somebody else has drawn, audited without an engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from otspec.auditing.engines.engine import Sampling, Text, as_text
from otspec.auditing.engines.entry import watch
from otspec.auditing.engines.exact_law import ExactLawTest
from otspec.auditing.engines.judge import Batch, Cell, Judge, conclude
from otspec.auditing.engines.laws import Laws
from otspec.auditing.engines.outcome import Control
from otspec.auditing.engines.report import EngineAudit
from otspec.auditing.engines.settings import EngineAuditOptions, EngineAuditSettings
from otspec.auditing.engines.two_sample import TwoSampleTest
from otspec.auditing.settings import no_progress
from otspec.errors import ProblemError

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
    found, without = ([as_text(one) for one in texts] for texts in (drafted, () if plain is None else plain))
    if laws is None and plain is None:
        raise ProblemError("there is nothing to compare the texts with; pass texts without drafts, or the exact law")
    count = len(found) if laws is not None else min(len(found), len(without))
    if not count:
        raise ProblemError("there are no texts; pass some hundreds with drafts, and as many without")
    longest = max((len(one.tokens) for one in (*found, *without)), default=0) or 8
    asked: dict[str, Any] = {"texts": count, "length": longest, **options}
    settings = EngineAuditSettings(**asked)
    cells = [Cell(0, prompt, Sampling())]
    judge: Judge
    if laws is None:
        control, rule = repeated(without, np.random.default_rng((settings.seed, 2)))
        judge = TwoSampleTest(cells, settings, control=rule)
    else:
        control, judge = [], ExactLawTest(cells, settings, laws)
    done = 0

    def draw(cell: Cell, count: int, look: int) -> Batch:
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

"""Acceptance beside the optimum: whether more drafts are accepted than any lossless rule can accept.

Engines count the drafts of a whole batch, and do not say after which texts they drafted.  So texts are asked for that
are so short that each is drafted for once, after the prompt or after its first token: alpha* there bounds the chance
that a draft is accepted, and these chances bound the exponential moments of their sum.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from otspec.auditing.evidence import at_look, rate_radius
from otspec.auditing.outcome import Finding, Test
from otspec.auditing.settings import Progress
from otspec.engine_audit.draws import whole
from otspec.engine_audit.engine import Acceptance, Drafting, Engine, TellsDrafting
from otspec.engine_audit.judge import OPTIMUM, Cell, next_batch
from otspec.engine_audit.laws import Laws, ModelLaws
from otspec.engine_audit.optimum import Optima
from otspec.engine_audit.outcome import FirstDrafts
from otspec.engine_audit.settings import EngineAuditSettings
from otspec.engine_audit.storage import Drawn
from otspec.laws import FloatArray, IntArray

STAKES = 2.0 ** np.arange(1, -8, -1)
"""By how much the logarithm of the odds of acceptance is larger in the alternatives."""

LENGTHS = (1, 2, 3)
"""Tokens of the texts: the least at which the engine drafts.  Some draft for the last token, others do not."""

PART = 2
"""There is one such text for so many of the audit's budget."""

NONE = Acceptance(0, 0, 0)

Ask = Callable[[Cell, int, int, int], Drawn]
"""From a cell, how many texts, their length and the number of the look to what came of them."""


class Held(NamedTuple):
    """What acceptance beside the optimum comes to: a test with its figures, or the finding that it was left out."""

    test: Test | None = None
    figures: FirstDrafts | None = None
    finding: Finding | None = None


class Tally:
    """What became of the first drafts of texts, of one prompt and sampling or of several.

    *By place* is for texts that are drafted for when they have no token, and when they have one.
    """

    def __init__(self) -> None:
        self.texts = self.drafted = self.accepted = 0
        self.open: IntArray = np.zeros(2, dtype=np.int64)
        """Texts that can be drafted for, by place, shape (2,)."""
        self.optimum: FloatArray = np.zeros(2)
        """How many can accept a draft on average, by place, shape (2,)."""
        self.moments: FloatArray = np.zeros((2, STAKES.size))
        """Logarithms of the largest means of exp(stake * accepted), by place, shape (2, STAKES.size)."""

    @classmethod
    def of(cls, parts: Sequence[Tally]) -> Tally:
        """All of these together."""
        total = cls()
        for part in parts:
            total.texts += part.texts
            total.drafted += part.drafted
            total.accepted += part.accepted
            total.open += part.open
            total.optimum += part.optimum
            total.moments += part.moments
        return total

    def add(self, told: Acceptance, optima: FloatArray) -> None:
        """Count a batch of n texts; `optima` as `Optima.after` has them, shape (2, n)."""
        # Where no positions are told each draft counts as a first one: if others are among them, there are too many.
        drafted, accepted = (told.steps, told.per_position[0]) if told.per_position else (told.drafted, told.accepted)
        chances = np.nan_to_num(optima)
        self.texts += optima.shape[1]
        self.drafted += drafted
        self.accepted += accepted
        self.open += np.isfinite(optima).sum(axis=1)
        self.optimum += chances.sum(axis=1)
        self.moments += np.log1p(chances[:, :, None] * np.expm1(STAKES)).sum(axis=1)

    def logs(self, hits: int | None = None) -> FloatArray:
        """Logarithms of e-values, by place and stake, shape (2, STAKES.size); if given, for another number of hits."""
        return (self.accepted if hits is None else hits) * STAKES - self.moments


def together(tallies: Sequence[Tally]) -> FloatArray:
    """Logarithms of e-values against "no more than the optimum" of all prompts and samplings, by place, shape (2,).

    Half their average, which finds one that is off, and half the product in which all take the same stake.
    """
    each = _log_mean(np.array([tally.logs() for tally in tallies]), axis=2)
    alike = _log_mean(Tally.of(tallies).logs(), axis=1)
    return _log_mean(np.array([_log_mean(each, axis=0), alike]), axis=0)


def proof(tally: Tally, place: int, threshold: float) -> int | None:
    """How many texts that accept a draft would be proof, whichever they are; None if all of them would not."""

    def evidence(hits: int) -> float:
        return float(_log_mean(tally.logs(hits)[place], axis=0)) - math.log(2)

    least = bisect_left(range(tally.texts + 1), threshold, key=evidence)
    return least if least <= tally.texts else None


def hold_against_optimum(
    engine: Engine,
    ask: Ask,
    cells: Sequence[Cell],
    laws: Laws,
    draft_laws: Laws,
    settings: EngineAuditSettings,
    threshold: float,
    progress: Progress,
) -> Held:
    """Draw short texts until they prove that too many drafts are accepted, or their budget is spent.

    Parameters
    ----------
    engine : Engine
    ask : callable
        Draws.
    cells : sequence of Cell
    laws, draft_laws : Laws
        Of the target and of the draft model.
    settings : EngineAuditSettings
    threshold : float
        Evidence that is proof, as a logarithm.
    progress : callable
        Is called with the number of texts, and the most that there are to be.
    """
    told = {cell: engine.drafting(cell.sampling) for cell in cells} if isinstance(engine, TellsDrafting) else {}
    drafting = {cell: how for cell, how in told.items() if how is not None}
    if not drafting:
        return _left_out(f"{engine.name} does not say how its drafts are drawn from a draft model's law")
    if (prompt := _read_differently(drafting, laws, draft_laws)) is not None:
        return _left_out(f"the draft model reads {prompt!r} as other tokens than the target")
    most = max(settings.texts // (PART * len(drafting)), 1)
    first, count = next(iter(drafting)), next_batch(0, most, settings.batch)
    length = next((length for length in LENGTHS if (ask(first, count, length, 0).told or NONE).drafted), None)
    if length is None and engine.acceptance() is None:
        return _left_out(f"{engine.name} does not count its drafts")
    if length is None:
        return _left_out(f"{engine.name} does not draft in texts of {LENGTHS[-1]} tokens")
    optima, tallies = Optima(laws, draft_laws, settings.tolerance), {cell: Tally() for cell in drafting}
    done = look = 0
    while True:
        count = next_batch(done, most, settings.batch)
        for cell, how in drafting.items():
            drawn = ask(cell, count, length, look)
            texts = whole(drawn.texts, length, laws.ends)
            begun = [text[0] if text else min(laws.ends, default=0) for text in texts]
            tallies[cell].add(drawn.told or NONE, optima.after(cell, how, begun))
        done, look = done + count, look + 1
        progress(done * len(drafting), most * len(drafting))
        found = _concluded(tallies, drafting, length, settings, threshold, look)
        if found.test is None or done >= most or (found.test.rejected and not settings.all_texts):
            return found


def _concluded(
    tallies: Mapping[Cell, Tally],
    drafting: Mapping[Cell, Drafting],
    length: int,
    settings: EngineAuditSettings,
    threshold: float,
    looks: int,
) -> Held:
    """What so many looks come to."""
    total = Tally.of(list(tallies.values()))
    places = _places(total, drafting, length)
    if not places:
        counts = f"{total.drafted:,} drafts of {total.texts:,} texts of {length} tokens"
        return _left_out(f"the counts do not fit texts that are drafted for once: {counts}")
    evidence = together(list(tallies.values()))
    place = min(places, key=lambda place: float(evidence[place]))
    largest = max(tallies, key=lambda cell: float(_log_mean(tallies[cell].logs()[place], axis=0)))
    radius = rate_radius(total.texts, at_look(1 - settings.confidence, looks - 1) / 2)
    rate = total.accepted / total.texts
    proofs = [proof(total, place, threshold) for place in places]
    figures = FirstDrafts(
        "; ".join(dict.fromkeys(map(str, drafting.values()))),
        length,
        tuple(places),
        total.texts,
        total.drafted,
        total.accepted,
        float(total.optimum[places].max()),
        (max(rate - radius, 0.0), min(rate + radius, 1.0)),
        None if None in proofs else max(one for one in proofs if one is not None),
    )
    hypothesis = "no more drafts are accepted than by the best lossless rule"
    return Held(Test(OPTIMUM, hypothesis, float(evidence[place]), threshold, str(largest)), figures)


def _places(total: Tally, drafting: Mapping[Cell, Drafting], length: int) -> list[int]:
    """How many tokens a text may have had when it was drafted for: as the engine says, and as the counts allow."""
    return [
        place
        for place in range(min(length, 2))
        if all(how.after in (None, place) for how in drafting.values()) and total.drafted <= total.open[place]
    ]


def _read_differently(cells: Mapping[Cell, Drafting], laws: Laws, draft_laws: Laws) -> str | None:
    """A prompt that the two models do not read as the same tokens; None if there is none."""
    if not (isinstance(laws, ModelLaws) and isinstance(draft_laws, ModelLaws)):
        return None
    prompts = [cell.prompt for cell in cells]
    return next((one for one in prompts if laws.head(one) != draft_laws.head(one)), None)


def _left_out(why: str) -> Held:
    return Held(finding=Finding(f"acceptance is not held against the optimum: {why}", bias=False))


def _log_mean(logs: FloatArray, axis: int) -> FloatArray:
    """Logarithm of the mean of exp(logs) along an axis, which the result does not have."""
    mean: FloatArray = np.logaddexp.reduce(logs, axis=axis) - math.log(logs.shape[axis])
    return mean

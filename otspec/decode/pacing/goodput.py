"""The depth of the greatest goodput: expected tokens of a step over its expected seconds [liu2024optimizing]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from otspec.decode.pacing.acceptance import Acceptance
from otspec.decode.pacing.costs import Costs, MeasuredCosts, PassCosts, Step, StepCosts
from otspec.errors import ProblemError
from otspec.laws import as_float
from otspec.verification.trees.shape import Shape

GOODPUT = "goodput"
"""The pace by name."""
PATIENCE = 16
"""After so many steps without a draft the least is drafted: what is not drafted is not learnt about."""


@dataclass(frozen=True, eq=False)
class Goodput:
    """How to choose the depth of every step; what is measured is kept from text to text.

    Parameters
    ----------
    costs : Costs, optional
        Seconds of a step, such as `otspec.decode.PassCosts`; then a seed gives one text.  By default they are learnt
        from the times of past steps, which no seed repeats.
    chance : float
        The acceptance of a drafted token that is expected of a text before anything is known of it.
    weight : float
        For how many tokens that expectation counts, and for how many refusals that a text is like all others.
    memory : float
        After about how many steps a text's own past is forgotten.

    Raises
    ------
    ProblemError
        If one is out of its range.

    Examples
    --------
    Where the target takes a second and the draft model nothing, one drafts as deep as one may.

    >>> from otspec.decode import Goodput, PassCosts, PassTimes
    >>> from otspec.decode.pacing.goodput import Pacer
    >>> from otspec.verification.trees.shape import Shape
    >>> costs = PassCosts(target=PassTimes((1,), (1.0,)), draft=PassTimes((1,), (0.0,)))
    >>> pacer = Pacer(Goodput(costs), Shape((1, 1, 1)))
    >>> pacer.begin(texts=1)
    >>> pacer.choose(deepest=3)
    3
    """

    costs: Costs = field(default_factory=MeasuredCosts)
    chance: float = 0.65
    weight: float = 12.0
    memory: float = 30.0

    def __post_init__(self) -> None:
        if not callable(self.costs):
            raise ProblemError(
                f"costs is {self.costs!r}; pass a function from a step to its seconds, such as "
                "otspec.decode.PassCosts, or leave it out to have steps timed"
            )
        if not 0 < as_float(self.chance) < 1:
            raise ProblemError(f"chance is {self.chance}; it is a probability between 0 and 1, such as 0.65")
        if not 0 < as_float(self.weight) < math.inf:
            raise ProblemError(f"weight is {self.weight}; it is a number of tokens above 0, such as 12")
        if not 1 < as_float(self.memory) < math.inf:
            raise ProblemError(f"memory is {self.memory}; it is a number of steps above 1, such as 30")


def pace_of(pace: str | Goodput | None) -> Goodput | None:
    """The pace that is meant, by its name or as it is.

    Raises
    ------
    ProblemError
        If it is none.
    """
    if pace == GOODPUT:
        return Goodput()
    if pace is not None and not isinstance(pace, Goodput):
        raise ProblemError(f"pace is {pace!r}; it is {GOODPUT!r}, or an otspec.decode.Goodput with settings of its own")
    return pace


class Pacer:
    """Chooses the depth of each step of one run.

    Parameters
    ----------
    rule : Goodput
    shape : Shape
        What may be drafted: its first levels, or nothing.
    """

    def __init__(self, rule: Goodput, shape: Shape) -> None:
        self.rule = rule
        self.shape = shape
        self._cuts = [shape.cut(depth) for depth in range(shape.depth + 1)]
        self._measured = rule.costs if isinstance(rule.costs, MeasuredCosts) else None
        self._seconds: dict[int, list[float]] = {}
        """Of a step by its depth, for each number of texts for which they are known."""
        self._revision = 0
        """Of the costs that these are."""

    def begin(self, texts: int) -> None:
        """Begin so many texts."""
        rule = self.rule
        self._acceptance = Acceptance(texts, self.shape, rule.chance, rule.weight, rule.memory)
        self._texts = texts
        self._idle = 0
        """Steps since the last draft."""
        self._done: Step | None = None
        self._began = 0.0

    def choose(self, deepest: int) -> int:
        """How many levels to draft in the step that begins now; at most so many."""
        deepest = min(deepest, self.shape.depth)
        if self._measured is not None and (wanted := self._timed(self._measured, deepest)) is not None:
            return wanted.depth
        if self._idle >= PATIENCE:
            return min(deepest, 1)
        seconds = self._taken(self._texts)
        tokens = accumulate(self._acceptance.reach()[:deepest].tolist(), initial=float(self._texts))
        rates = [each / took for each, took in zip(tokens, seconds, strict=False)]
        return rates.index(max(rates))

    def _timed(self, costs: MeasuredCosts, deepest: int) -> Shape | None:
        """Tell the costs of the step before, which ends now; a shape that they want to be tried."""
        now = costs.now()
        if self._done is not None:
            costs.note(self._done, now - self._began)
        self._began = now
        return costs.wanted(self._cuts[: deepest + 1])

    def _taken(self, texts: int) -> list[float]:
        """Seconds of a step by its depth; what cannot have changed since the last step is not asked for anew."""
        costs = self.rule.costs
        if self._measured is not None and self._measured.revision != self._revision:
            self._seconds.clear()
            self._revision = self._measured.revision
        if (known := self._seconds.get(texts)) is not None:
            return known
        seconds = [costs(Step.of(texts, shape)) for shape in self._cuts]
        if not all(0 < one < math.inf for one in seconds):
            told = dict(zip((one.branching for one in self._cuts), seconds, strict=True))
            raise ProblemError(f"costs gives {told} seconds by branching; all have to be above 0")
        if isinstance(costs, (PassCosts, StepCosts, MeasuredCosts)):  # others may change at any time
            self._seconds[texts] = seconds
        return seconds

    def learn(
        self,
        depth: int,
        offered: Sequence[int],
        accepted: Sequence[int],
        rows: Sequence[int],
    ) -> None:
        """End the step.

        Parameters
        ----------
        depth : int
            How many levels were drafted.
        offered : sequence of int
            The longest path that each text got: as many tokens as levels, or less.
        accepted : sequence of int
            How many tokens of each text were accepted.
        rows : sequence of int
            Which texts go on.
        """
        depth = min(depth, max(offered, default=0))
        if self._measured is not None:
            self._done = Step.of(self._texts, self._cuts[depth])
        self._idle = 0 if depth else self._idle + 1
        self._acceptance.note(offered, accepted)
        self._acceptance.keep(rows)
        self._texts = len(rows)

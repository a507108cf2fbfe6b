"""The depth of the greatest goodput: expected tokens of a step over its expected seconds [liu2024optimizing]."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from otspec.decode.pacing.acceptance import Acceptance
from otspec.decode.pacing.costs import Costs, MeasuredCosts, Step
from otspec.errors import ProblemError
from otspec.laws import as_float

PATIENCE = 16
"""After so many steps without a draft one token is drafted: what is not drafted is not learnt about."""


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
        For how many tokens that expectation counts.
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
    >>> pacer = Pacer(Goodput(PassCosts(PassTimes((1,), (1.0,)), PassTimes((1,), (0.0,)))), widths=(1, 1, 1))
    >>> pacer.begin(texts=1)
    >>> pacer.depth(deepest=3)
    3
    """

    costs: Costs = field(default_factory=MeasuredCosts)
    chance: float = 0.7
    weight: float = 2.0
    memory: float = 20.0

    def __post_init__(self) -> None:
        if not callable(self.costs):
            raise ProblemError(
                f"costs is {self.costs!r}; pass a function from a step to its seconds, such as "
                "otspec.decode.PassCosts, or leave it out to have steps timed"
            )
        if not 0 < as_float(self.chance) < 1:
            raise ProblemError(f"chance is {self.chance}; it is a probability between 0 and 1, such as 0.7")
        if not 0 < as_float(self.weight) < math.inf:
            raise ProblemError(f"weight is {self.weight}; it is a number of tokens above 0, such as 2")
        if not 1 < as_float(self.memory) < math.inf:
            raise ProblemError(f"memory is {self.memory}; it is a number of steps above 1, such as 20")


class Pacer:
    """Chooses the depth of each step of one run.

    Parameters
    ----------
    rule : Goodput
    widths : sequence of int
        Drafted tokens of each level of the deepest step, for one text.
    now : callable
        A clock, in seconds.
    """

    def __init__(self, rule: Goodput, widths: Sequence[int], now: Callable[[], float] = time.perf_counter) -> None:
        self.rule = rule
        self.widths = tuple(widths)
        self._now = now

    def begin(self, texts: int) -> None:
        """Begin so many texts."""
        rule = self.rule
        self._acceptance = Acceptance(texts, len(self.widths), rule.chance, rule.weight, rule.memory)
        self._texts = texts
        self._idle = 0
        """Steps since the last draft."""
        self._done: Step | None = None
        self._began = 0.0

    def depth(self, deepest: int) -> int:
        """How deep to draft in the step that begins now; at most so deep."""
        costs, now = self.rule.costs, self._now()
        wanted = None
        if isinstance(costs, MeasuredCosts):
            if self._done is not None:
                costs.note(self._done, now - self._began)
            wanted = costs.wanted(deepest)
        self._began = now
        if wanted is not None:
            return wanted
        if self._idle >= PATIENCE:
            return min(1, deepest)
        tokens = self._acceptance.tokens()[: deepest + 1]
        seconds = [costs(Step(self._texts, self.widths[:depth])) for depth in range(deepest + 1)]
        if not all(0 < one < math.inf for one in seconds):
            raise ProblemError(f"costs gives steps of depth 0, 1, ... {seconds} seconds; all have to be above 0")
        return int(np.argmax(tokens / seconds))  # the least of several

    def learn(self, drafted: int, accepted: Sequence[int], rows: Sequence[int]) -> None:
        """End the step: how deep it did draft, how many tokens of each text were accepted, and which texts go on."""
        self._done = Step(self._texts, self.widths[:drafted])
        self._idle = 0 if drafted else self._idle + 1
        self._acceptance.note(drafted, accepted)
        self._acceptance.keep(rows)
        self._texts = len(rows)

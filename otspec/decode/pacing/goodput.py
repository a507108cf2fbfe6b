"""The shape of the greatest goodput: expected tokens of a step over its expected seconds [liu2024optimizing]."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

import numpy as np
import torch

from otspec.decode.pacing.acceptance import Acceptance
from otspec.decode.pacing.costs import Costs, MeasuredCosts, PassCosts, Step
from otspec.decode.pacing.menu import NONE
from otspec.decode.pacing.selector import Selector
from otspec.errors import ProblemError
from otspec.laws import FloatArray, as_float
from otspec.paths.shape import Shape

GOODPUT = "goodput"
"""The pace by name."""
PATIENCE = 16
"""After so many steps without a draft the least is drafted: what is not drafted is not learnt about."""


class Forecast(Protocol):
    """What steps are expected to give, from what happened before."""

    def tokens(self, shapes: Sequence[Shape]) -> FloatArray:
        """Tokens that a step of each shape is expected to give to all texts together."""

    def note(self, shape: Shape, offered: Sequence[int], accepted: Sequence[int]) -> None:
        """Take a step: how many tokens of this shape's paths were drafted in each text, and how many accepted."""

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these texts."""


@dataclass(frozen=True, eq=False)
class Goodput:
    """How to choose the shape of every step; what is measured is kept from text to text.

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
    selector : Selector, optional
        Foretells what steps give in place of past acceptances, from what both models say of the text: see `otspec
        selector`.

    Raises
    ------
    ProblemError
        If one is out of its range.

    Examples
    --------
    Where the target takes a second and the draft model nothing, one drafts as deep as one may.

    >>> from otspec.decode import Goodput, PassCosts, PassTimes
    >>> from otspec.decode.pacing.goodput import Pacer
    >>> from otspec.paths.shape import Shape
    >>> menu = [Shape((1,)), Shape((1, 1)), Shape((1, 1, 1))]
    >>> pacer = Pacer(Goodput(PassCosts(PassTimes((1,), (1.0,)), PassTimes((1,), (0.0,)))), menu)
    >>> pacer.begin(texts=1)
    >>> pacer.choose(deepest=3).branching
    (1, 1, 1)
    """

    costs: Costs = field(default_factory=MeasuredCosts)
    chance: float = 0.65
    weight: float = 12.0
    memory: float = 30.0
    selector: Selector | None = None

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
        if self.selector is not None and not isinstance(self.selector, Selector):
            raise ProblemError(
                f"selector is {self.selector!r}; pass an otspec.decode.Selector, such as Selector.load(FILE) gives"
            )


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
    """Chooses the shape of each step of one run.

    Parameters
    ----------
    rule : Goodput
    menu : sequence of Shape
        What may be drafted; to draft nothing is chosen too.
    now : callable
        A clock, in seconds.
    """

    def __init__(self, rule: Goodput, menu: Sequence[Shape], now: Callable[[], float] = time.perf_counter) -> None:
        self.rule = rule
        self.menu = list(menu)
        self._now = now
        self._choices = cache(self._of)
        self._seconds = cache(self._taken) if isinstance(rule.costs, PassCosts) else self._taken  # others may change
        if rule.selector is not None:
            rule.selector.check_menu(self.menu)

    def begin(self, texts: int) -> None:
        """Begin so many texts."""
        rule = self.rule
        self._seen = None if rule.selector is None else rule.selector.begin(texts)
        self._forecast: Forecast = self._seen or Acceptance(texts, self.menu, rule.chance, rule.weight, rule.memory)
        self._texts = texts
        self._idle = 0
        """Steps since the last draft."""
        self._done: Step | None = None
        self._began = 0.0

    @property
    def wants_law(self) -> bool:
        """Whether it chooses by the first draft law too."""
        return self.rule.selector is not None

    def choose(self, deepest: int, law: torch.Tensor | None = None) -> Shape:
        """What to draft in the step that begins now; at most so deep.

        Parameters
        ----------
        deepest : int
        law : Tensor, shape (B, V), optional
            The draft model's law after each text.
        """
        choices = self._choices(deepest)
        costs, now = self.rule.costs, self._now()
        wanted = None
        if isinstance(costs, MeasuredCosts):
            if self._done is not None:
                costs.note(self._done, now - self._began)
            wanted = costs.wanted(choices)
        self._began = now
        if self._seen is not None and law is not None:
            self._seen.look(law)
        if wanted is not None:
            return wanted
        if self._idle >= PATIENCE:
            return min(choices[1:] or choices, key=lambda shape: shape.slots)
        tokens = self._forecast.tokens(choices)
        return choices[int(np.argmax(tokens / self._seconds(self._texts, deepest)))]  # the first of several

    def _of(self, deepest: int) -> list[Shape]:
        """None, and the shapes of the menu down to a depth."""
        return list(dict.fromkeys((NONE, *(shape.cut(deepest) for shape in self.menu))))

    def _taken(self, texts: int, deepest: int) -> FloatArray:
        """Seconds of a step of each of these."""
        choices = self._choices(deepest)
        seconds = np.array([self.rule.costs(Step.of(texts, shape)) for shape in choices])
        if not all(0 < one < math.inf for one in seconds):
            told = dict(zip((one.branching for one in choices), seconds.tolist(), strict=True))
            raise ProblemError(f"costs gives {told} seconds by branching; all have to be above 0")
        return seconds

    def compare(self, shared: Sequence[Sequence[float]]) -> None:
        """Take what both models' laws had in common along what was accepted, for each text."""
        if self._seen is not None:
            self._seen.compare(shared)

    def learn(self, shape: Shape, offered: Sequence[int], accepted: Sequence[int], rows: Sequence[int]) -> None:
        """End the step.

        Parameters
        ----------
        shape : Shape
            What was drafted.
        offered : sequence of int
            The longest path that each text got: as deep as the shape, or less.
        accepted : sequence of int
            How many tokens of each text were.
        rows : sequence of int
            Which texts go on.
        """
        shape = shape.cut(max(offered, default=0))
        self._done = Step.of(self._texts, shape)
        self._idle = 0 if shape.depth else self._idle + 1
        self._forecast.note(shape, offered, accepted)
        self._forecast.keep(rows)
        self._texts = len(rows)

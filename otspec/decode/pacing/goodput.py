"""The shape of the greatest goodput: expected tokens of a step over its expected seconds [liu2024optimizing]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np
import torch

from otspec.decode.pacing.acceptance import Acceptance
from otspec.decode.pacing.costs import Costs, MeasuredCosts, PassCosts, Step, StepCosts
from otspec.decode.pacing.kernels import best_of
from otspec.decode.pacing.menu import NONE, members, prefixes
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

    def reach(self) -> FloatArray:
        """In how many texts each branching of the menu is expected to be accepted, the shortest first."""

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


class Choices(NamedTuple):
    """What may be drafted down to some depth, none included."""

    shapes: Sequence[Shape]
    members: FloatArray
    """Shape (shapes, branchings)."""


class Pacer:
    """Chooses the shape of each step of one run.

    Parameters
    ----------
    rule : Goodput
    menu : sequence of Shape
        What may be drafted; to draft nothing is chosen too.
    """

    def __init__(self, rule: Goodput, menu: Sequence[Shape]) -> None:
        self.rule = rule
        self.menu = list(menu)
        self._measured = rule.costs if isinstance(rule.costs, MeasuredCosts) else None
        self._branchings = prefixes(self.menu) if rule.selector is None else rule.selector.branchings
        self._choices = cache(self._of)
        self._steps = cache(self._considered)
        self._seconds: dict[tuple[int, int], FloatArray] = {}
        """Of those that are known, by the number of texts and the depth."""
        self._revision = 0
        """Of the costs that these are."""
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
        self._whole = True
        """Whether all that it drafted was distinct."""
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
        choices, wanted = self._choices(deepest), None
        if self._measured is not None:
            wanted = self._timed(self._measured, choices)
        if self._seen is not None and law is not None:
            self._seen.look(law)
        if wanted is not None:
            return wanted
        if self._idle >= PATIENCE:
            return min(choices.shapes[1:] or choices.shapes, key=lambda shape: shape.slots)
        seconds = self._taken(self._texts, deepest)
        return choices.shapes[best_of(self._texts, choices.members, self._forecast.reach(), seconds)]

    def _timed(self, costs: MeasuredCosts, choices: Choices) -> Shape | None:
        """Tell the costs of the step before, which ends now; a shape that they want to be tried."""
        now = costs.now()
        if self._done is not None:
            costs.note(self._done, now - self._began, self._whole)
        self._began = now
        return costs.wanted(choices.shapes)

    def _of(self, deepest: int) -> Choices:
        """None, and the shapes of the menu down to a depth."""
        shapes = list(dict.fromkeys((NONE, *(shape.cut(deepest) for shape in self.menu))))
        return Choices(shapes, members(shapes, self._branchings))

    def _considered(self, texts: int, deepest: int) -> list[Step]:
        return [Step.of(texts, shape, self.wants_law) for shape in self._choices(deepest).shapes]

    def _taken(self, texts: int, deepest: int) -> FloatArray:
        """Seconds of a step of each of these; what cannot have changed since the last step is not asked for anew."""
        costs = self.rule.costs
        if self._measured is not None and self._measured.revision != self._revision:
            self._seconds.clear()
            self._revision = self._measured.revision
        if (known := self._seconds.get((texts, deepest))) is not None:
            return known
        seconds = np.array([costs(step) for step in self._steps(texts, deepest)])
        if not all(0 < one < math.inf for one in seconds):
            shapes = self._choices(deepest).shapes
            told = dict(zip((one.branching for one in shapes), seconds.tolist(), strict=True))
            raise ProblemError(f"costs gives {told} seconds by branching; all have to be above 0")
        if isinstance(costs, (PassCosts, StepCosts, MeasuredCosts)):  # others may change at any time
            self._seconds[texts, deepest] = seconds
        return seconds

    def compare(self, shared: Sequence[Sequence[float]]) -> None:
        """Take what both models' laws had in common along what was accepted, for each text."""
        if self._seen is not None:
            self._seen.compare(shared)

    def learn(
        self,
        shape: Shape,
        offered: Sequence[int],
        accepted: Sequence[int],
        rows: Sequence[int],
        whole: bool = True,
    ) -> None:
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
        whole : bool
            Whether no two drafted prefixes were the same.
        """
        self._whole = whole
        shape = shape.cut(max(offered, default=0))
        if self._measured is not None:
            self._done = Step.of(self._texts, shape, self.wants_law)
        self._idle = 0 if shape.depth else self._idle + 1
        self._forecast.note(shape, offered, accepted)
        self._forecast.keep(rows)
        self._texts = len(rows)

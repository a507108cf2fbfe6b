"""What a step takes: from times of passes that are given, or from times of past steps."""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import mul
from statistics import median_low
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.optimize import nnls

from otspec.errors import ProblemError
from otspec.laws import FloatArray, as_float
from otspec.verification.trees.shape import Shape

KEPT = 21
"""How many last times of steps of one kind are kept."""
LINE = 4
"""For how many times of a step counts what steps of other kinds let expect."""
SELDOM = 16
"""What is measured is fitted anew after one step in so many of those before, and after so many at most."""
TIMES = 2
"""How often each of a few shapes is tried before costs are trusted: the first step of a kind allocates, and on some
devices compiles."""
APART = 32
"""One step in so many is of a shape that is due and not chosen: what is not timed anew would stay as it was when the
machine had other things to do."""
RECENT = 15
"""Steps that tell how fast the machine is at present."""


@dataclass(frozen=True)
class PassTimes:
    """Seconds of a model's pass by its number of rows, that is of tokens read; between the measured ones on a line.

    Raises
    ------
    ProblemError
        If there are none, not as many of both, rows that do not ascend, or seconds that are none.

    Examples
    --------
    >>> from otspec.decode import PassTimes
    >>> PassTimes(rows=(1, 5), seconds=(0.25, 0.5))(3)
    0.375
    """

    rows: tuple[int, ...]
    """Ascending."""
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        rows, seconds = self.rows, self.seconds
        if not rows or len(rows) != len(seconds) or not all(one < two for one, two in pairwise(rows)):
            raise ProblemError(f"passes of {rows} rows take {seconds} seconds; pass as many of both, rows ascending")
        if not all(0 <= as_float(one) < math.inf for one in seconds):
            raise ProblemError(f"passes take {seconds} seconds; all are finite, and none is below 0")

    def __call__(self, rows: float) -> float:
        """Seconds of a pass; beyond the last measured one, on the line of the last two."""
        if rows > self.rows[-1] and len(self.rows) > 1:
            slope = (self.seconds[-1] - self.seconds[-2]) / (self.rows[-1] - self.rows[-2])
            return self.seconds[-1] + max(slope, 0.0) * (rows - self.rows[-1])
        return float(np.interp(rows, self.rows, self.seconds))


class Step(NamedTuple):
    """A step that is considered, or was done."""

    texts: int
    widths: tuple[int, ...]
    """Drafted tokens of each level, for one text; those that begin alike are not merged yet."""

    @classmethod
    def of(cls, texts: int, shape: Shape) -> Step:
        """A step that drafts trees of that shape."""
        return cls(texts, tuple(int(width) for width in np.diff(shape.offsets[1:])))

    @property
    def rows(self) -> int:
        """What the target reads: the last token of each text, and all that was drafted."""
        return self.texts * (1 + sum(self.widths))

    @property
    def draft_rows(self) -> tuple[int, ...]:
        """What each pass of the draft model reads: the last token of each text, then every level but the last."""
        return tuple(self.texts * width for width in (1, *self.widths[:-1])) if self.widths else ()


class Costs(Protocol):
    """A cost model."""

    def __call__(self, step: Step) -> float:
        """Seconds that a step takes, above 0."""


@dataclass(frozen=True)
class PassCosts:
    """The passes of a step, and a rest: always the same for the same step, so that runs can be repeated.

    A step of L levels is a draft pass over the last token of each text, one over each level but the last, and the
    target's pass over all rows; without drafts it is the target's pass.

    Parameters
    ----------
    target, draft : PassTimes
        By the rows of all texts together.
    rest : float
        Seconds of what else is done in a step.
    rest_of_level : float
        And for each of its levels.

    Raises
    ------
    ProblemError
        If a rest is below 0, or none.

    Examples
    --------
    Two drafted tokens of one text: two draft passes over a row, and the target's over three.

    >>> from otspec.decode import PassCosts, PassTimes
    >>> from otspec.decode.pacing.costs import Step
    >>> costs = PassCosts(target=PassTimes((1, 3), (1.0, 1.5)), draft=PassTimes((1,), (0.25,)))
    >>> costs(Step(texts=1, widths=(1, 1)))
    2.0
    """

    target: PassTimes
    draft: PassTimes
    rest: float = 0.0
    rest_of_level: float = 0.0

    def __post_init__(self) -> None:
        for name in ("rest", "rest_of_level"):
            if not 0 <= as_float(getattr(self, name)) < math.inf:
                raise ProblemError(f"{name} is {getattr(self, name)}; it is a number of seconds, none below 0")

    def __call__(self, step: Step) -> float:
        """Seconds that a step takes."""
        passes = sum(map(self.draft, step.draft_rows))
        return self.target(step.rows) + passes + self.rest + self.rest_of_level * len(step.widths)


@dataclass(frozen=True)
class StepCosts:
    """Whole steps of one text that were timed once: always the same for the same step, so that runs can be repeated.

    What was not timed, and what several texts take together, lies on a line through what was: a step takes a fixed
    time, more if it drafts, more if several paths, more for each level, and more for each row of the target.

    Parameters
    ----------
    widths : tuple of tuples of int
        Of each step that was timed the drafted tokens of its levels, as `Step` has them.
    seconds : tuple of float

    Raises
    ------
    ProblemError
        If there are none, not as many of both, or seconds that are none.

    Examples
    --------
    >>> from otspec.decode import StepCosts
    >>> from otspec.decode.pacing.costs import Step
    >>> costs = StepCosts(widths=((), (1,), (1, 1)), seconds=(1.0, 1.5, 1.75))
    >>> costs(Step(texts=1, widths=(1,))), round(costs(Step(texts=1, widths=(1, 1, 1))), 6)
    (1.5, 2.0)
    """

    widths: tuple[tuple[int, ...], ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.widths or len(self.widths) != len(self.seconds):
            raise ProblemError(f"steps of widths {self.widths} take {self.seconds} seconds; pass as many of both")
        if not all(0 < as_float(one) < math.inf for one in self.seconds):
            raise ProblemError(f"steps take {self.seconds} seconds; all are finite, and above 0")

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> StepCosts:
        """What `dataclasses.asdict` made a mapping of, perhaps by way of JSON."""
        return cls(tuple(map(tuple, record["widths"])), tuple(record["seconds"]))

    def __call__(self, step: Step) -> float:
        """Seconds that a step takes."""
        known = self._known.get(step.widths) if step.texts == 1 else None
        return _on_line(self._line, step) if known is None else known

    @cached_property
    def _known(self) -> Mapping[tuple[int, ...], float]:
        return dict(zip(self.widths, self.seconds, strict=True))

    @cached_property
    def _line(self) -> list[float]:
        return _line_through([Step(1, widths) for widths in self.widths], np.array(self.seconds))


class MeasuredCosts:
    """Learnt from the seconds of past steps: whatever they were spent on, and on whatever machine.

    A line as that of `StepCosts` is fitted by least squares of relative errors to the lower quartile of the last
    `most` times of each kind of step: what else a machine does makes steps longer, and never shorter.  A kind that was
    timed n times takes what its own times say, with the line counting as `LINE` more.  Times are taken relative to the
    machine's speed when they were measured, which is the median of the last `RECENT` steps' times over those that are
    expected: so steps of different moments can be compared.

    Parameters
    ----------
    now : callable
        A clock, in seconds.
    most : int
        How many last times of steps of one kind are kept.

    Examples
    --------
    Some steps are tried before costs are trusted; here a level takes a second, as does the step without any.

    >>> from otspec.decode import MeasuredCosts
    >>> from otspec.decode.pacing.costs import Step
    >>> from otspec.verification.trees.shape import Shape
    >>> costs = MeasuredCosts()
    >>> while (shape := costs.wanted([Shape((1,) * depth) for depth in range(4)])) is not None:
    ...     costs.note(Step.of(1, shape), seconds=1.0 + shape.depth)
    >>> round(costs(Step(texts=1, widths=(1, 1))), 6)
    3.0
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter, most: int = KEPT) -> None:
        self.now = now
        self.revision = 0
        """Another one where costs may have changed."""
        self._times: defaultdict[Step, deque[float]] = defaultdict(lambda: deque(maxlen=most))
        self._tried: defaultdict[Shape, int] = defaultdict(int)
        self._asked = 0
        self._begun = False
        """Whether each of the first shapes has been tried."""
        self._ratios: deque[float] = deque(maxlen=RECENT)
        self._slowness = 1.0
        self._noted, self._next = 0, 0
        """Steps so far, and at how many of them it is fitted anew."""
        self._line: list[float] = []
        self._own: dict[Step, float] = {}
        """What the times of each kind of step say."""

    def note(self, step: Step, seconds: float) -> None:
        """Take the time of a step."""
        if self._begun:
            self._ratios.append(seconds / self._relative(step))
            self._slowness = median_low(self._ratios)
        self._times[step].append(seconds / self._slowness)
        self._noted += 1
        if self._noted >= self._next:
            self._fit()
            self._next = self._noted + 1 + min(self._noted // SELDOM, SELDOM)

    def wanted(self, choices: Sequence[Shape]) -> Shape | None:
        """A shape to try now: the largest, none and the least, `TIMES` each at first, and in turn later; or None.

        The largest and the least of those that branch, and of those that do not.  Others lie on the line between them
        until they are chosen.
        """
        self._asked += 1
        if self._begun and self._asked % APART:
            return None
        wanted = list[Shape]()
        for branches in (False, True):
            alike = sorted(
                (shape for shape in choices if shape.depth and (max(shape.branching) > 1) == branches),
                key=lambda shape: (shape.slots, shape.depth),
            )
            wanted += [*alike[-1:], *([] if branches else [Shape(())]), *alike[:1]]
        least = min(dict.fromkeys(wanted), key=self._tried.__getitem__)
        if not self._begun and self._times and self._tried[least] >= TIMES:
            self._begun = True
            self._fit()
            return None
        self._tried[least] += 1
        return least

    def __call__(self, step: Step) -> float:
        """Seconds that a step takes."""
        return self._relative(step) * self._slowness

    def kept(self) -> StepCosts:
        """What was measured of one text so far, for good."""
        found = {step.widths: undisturbed(times) for step, times in self._times.items() if step.texts == 1}
        return StepCosts(tuple(found), tuple(found.values()))

    def _relative(self, step: Step) -> float:
        """The same on a machine of the speed of the first steps."""
        expected = _on_line(self._line, step)
        if (own := self._own.get(step)) is None:
            return expected
        return expected + (own - expected) * len(self._times[step]) / (len(self._times[step]) + LINE)

    def _fit(self) -> None:
        self._own = {step: undisturbed(times) for step, times in self._times.items()}
        often = np.array([len(times) for times in self._times.values()])
        self._line = _line_through(list(self._own), np.array(list(self._own.values())), often)
        self.revision += 1


def undisturbed(times: Collection[float]) -> float:
    """The lower quartile, or the least of a few."""
    return sorted(times)[len(times) // 4]


def _line_through(steps: Sequence[Step], seconds: FloatArray, often: FloatArray | float = 1.0) -> list[float]:
    """What each term of these steps takes, none below 0, by least squares of relative errors."""
    weights = np.sqrt(often) / seconds
    found: list[float] = nnls(np.array(list(map(_terms, steps))) * weights[:, None], seconds * weights)[0].tolist()
    return found


def _on_line(line: Sequence[float], step: Step) -> float:
    return sum(map(mul, _terms(step), line))


def _terms(step: Step) -> tuple[float, ...]:
    """What the seconds of a step are a sum of, with weights to be found."""
    branches = max(step.widths, default=1) > 1
    return 1.0, bool(step.widths), branches, len(step.widths), step.rows

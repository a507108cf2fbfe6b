"""What a step takes: from times of passes that are given, or from times of past steps."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import mul
from statistics import median_low
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.optimize import nnls

from otspec.errors import ProblemError
from otspec.laws import as_float
from otspec.paths.shape import Shape

KEPT = 9
"""How many last times of steps of one kind are kept."""
TIMES = 2
"""How often each of a few shapes is tried before costs are trusted: the first step of a kind allocates, and on some
devices compiles."""
APART = 16
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
        return cls(texts, tuple(accumulate(shape.branching, mul)))

    @property
    def rows(self) -> int:
        """What the target reads: the last token of each text, and all that was drafted."""
        return self.texts * (1 + sum(self.widths))


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

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> PassCosts:
        """What `dataclasses.asdict` made a mapping of, perhaps by way of JSON."""
        times = {
            name: PassTimes(tuple(record[name]["rows"]), tuple(record[name]["seconds"])) for name in ("target", "draft")
        }
        return cls(**{**record, **times})

    def __call__(self, step: Step) -> float:
        """Seconds that a step takes."""
        read = (1, *step.widths[:-1]) if step.widths else ()
        passes = sum(self.draft(step.texts * width) for width in read)
        return self.target(step.rows) + passes + self.rest + self.rest_of_level * len(step.widths)


class MeasuredCosts:
    """Learnt from the seconds of past steps: whatever they were spent on, and on whatever machine.

    A step takes a fixed time, more if it drafts at all, more if several paths, more for each level, and more for each
    row of the target, none of them below 0: fitted by least squares of relative errors to the medians of the last
    `KEPT` times of each kind of step.  Times are taken relative to the machine's speed when they were measured, which
    is the median of the last `RECENT` steps' times over those that the fit says: so steps of different moments can be
    compared.

    Examples
    --------
    Some steps are tried before costs are trusted; here a level takes a second, as does the step without any.

    >>> from otspec.decode import MeasuredCosts
    >>> from otspec.decode.pacing.costs import Step
    >>> from otspec.paths.shape import Shape
    >>> costs = MeasuredCosts()
    >>> while (shape := costs.wanted([Shape((1,) * depth) for depth in range(4)])) is not None:
    ...     costs.note(Step.of(1, shape), seconds=1.0 + shape.depth)
    >>> round(costs(Step(texts=1, widths=(1, 1))), 6)
    3.0
    """

    def __init__(self) -> None:
        self._times: defaultdict[Step, deque[float]] = defaultdict(lambda: deque(maxlen=KEPT))
        self._tried: defaultdict[Shape, int] = defaultdict(int)
        self._asked = 0
        self._begun = False
        """Whether each of the first shapes has been tried."""
        self._ratios: deque[float] = deque(maxlen=RECENT)
        self._slowness = 1.0
        self._fit: list[float] | None = None

    def note(self, step: Step, seconds: float) -> None:
        """Take the time of a step."""
        if self._begun:
            self._ratios.append(seconds / self._relative(step))
            self._slowness = median_low(self._ratios)
        self._times[step].append(seconds / self._slowness)
        self._fit = None

    def wanted(self, choices: Sequence[Shape]) -> Shape | None:
        """A shape to try now: the largest, none and the least, `TIMES` each at first, and in turn later; or None.

        The largest and the least of those that branch, and of those that do not.  Others lie on the lines between them
        until they are chosen.
        """
        self._asked += 1
        wanted = list[Shape]()
        for branches in (False, True):
            alike = sorted(
                (shape for shape in choices if shape.depth and (max(shape.branching) > 1) == branches),
                key=lambda shape: (shape.slots, shape.depth),
            )
            wanted += [*alike[-1:], *([] if branches else [Shape(())]), *alike[:1]]
        least = min(dict.fromkeys(wanted), key=self._tried.__getitem__)
        self._begun = bool(self._times) and self._tried[least] >= TIMES
        if self._begun and self._asked % APART:
            return None
        self._tried[least] += 1
        return least

    def __call__(self, step: Step) -> float:
        """Seconds that a step takes."""
        return self._relative(step) * self._slowness

    def _relative(self, step: Step) -> float:
        """The same on a machine of the speed of the first steps."""
        if self._fit is None:
            seconds = np.array([median_low(times) for times in self._times.values()])
            weights = np.sqrt([len(times) for times in self._times.values()]) / seconds
            terms = np.array([_terms(one) for one in self._times])
            self._fit = nnls(terms * weights[:, None], seconds * weights)[0].tolist()
        return sum(map(mul, _terms(step), self._fit))


def _terms(step: Step) -> tuple[float, ...]:
    """What the seconds of a step are a sum of, with weights to be found."""
    return 1.0, bool(step.widths), max(step.widths, default=1) > 1, len(step.widths), step.rows

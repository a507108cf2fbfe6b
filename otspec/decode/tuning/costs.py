"""The cost model: tokens and seconds of a step, from acceptance by depth and from the times of passes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from otspec.decode.tuning.candidates import PLAIN, Candidate, Family
from otspec.errors import ProblemError
from otspec.laws import as_float


@dataclass(frozen=True)
class PassTimes:
    """Seconds of a model's pass by its number of rows, that is of tokens read; between the measured ones on a line.

    Raises
    ------
    ProblemError
        If there are no times, unequal numbers of rows and seconds, rows that do not ascend, or invalid seconds.

    Examples
    --------
    >>> from otspec.decode.tuning.costs import PassTimes
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


@dataclass(frozen=True)
class Trial:
    """Figures of decoding by a family, at depths that varied from step to step; of plain decoding, depth 0."""

    steps: Mapping[int, float]
    """Seconds of a whole step by its depth."""
    start: float
    """Seconds of a text besides its steps: preparation, and reading the prompt."""
    acceptance: tuple[float, ...] = ()
    """Entry d - 1: of the steps that may draft d tokens or more, the share that accepted d or more."""
    nodes: tuple[float, ...] = ()
    """Entry d - 1: distinct drafted prefixes of d tokens, on average."""


@dataclass(frozen=True)
class Prediction:
    """The expected tokens and seconds of a step of a candidate."""

    candidate: Candidate
    tokens: float
    """Per step."""
    draft: float
    target: float
    rest: float
    start: float
    """Of a text, besides its steps."""
    text: int
    """New tokens of a text."""

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return self.draft + self.target + self.rest

    @property
    def per_token(self) -> float:
        """Seconds of a token, its share of the start among them."""
        return self.step / self.tokens + self.start / self.text


@dataclass(frozen=True)
class CostModel:
    """Predicts the times of each candidate.

    A step of K paths of L tokens is a draft pass over the text's last token, L - 1 draft passes of K rows, or of one
    along a stem (none of them where drafts are copied), a target pass over all distinct prefixes, and the rest: drawing
    drafts, verification, bookkeeping.  It gives one token more than it accepts.

    Acceptance to depth d is that measured, whatever L >= d is.  For `block` this is exact (docs/paths.md: a path
    of d tokens is accepted or extended with probability min(A(v) p, q) summed, in which L does not occur), and so it is
    for all that verify token by token; `nested` serves its last level slightly better than the others.  What is left
    out is that the places where steps begin depend on L a little.

    Parameters
    ----------
    target : PassTimes
    draft : PassTimes, optional
        None for a model that needs the target's hidden states: no pass of it is timed alone, and all are in the rest.
    plain : Trial
    trials : mapping
    text : int
        New tokens of a text.
    """

    target: PassTimes
    draft: PassTimes | None
    plain: Trial
    trials: Mapping[Family, Trial]
    text: int

    def predict(self, candidate: Candidate) -> Prediction:
        """The expected times of a candidate."""
        family, depth = candidate.family, candidate.depth
        trial = self.plain if family is None else self.trials[family]
        measured = sorted(trial.steps)
        rest = [trial.steps[at] - sum(self._passes(trial, family, at)) for at in measured]
        draft, target = self._passes(trial, family, depth)
        return Prediction(
            candidate,
            tokens=1.0 + sum(trial.acceptance[:depth]),
            draft=draft,
            target=target,
            rest=float(np.interp(depth, measured, rest)),
            start=trial.start,
            text=self.text,
        )

    def _passes(self, trial: Trial, family: Family | None, depth: int) -> tuple[float, float]:
        """Seconds of the draft model's and of the target's passes in a step."""
        target = self.target(1 + sum(trial.nodes[:depth]))
        if family is None or family.lookup or self.draft is None:
            return 0.0, target
        return sum(self.draft(rows) for rows in (1, *family.widths(depth)[:-1])), target

    def best(self) -> list[Prediction]:
        """The best depth of every family, the fastest family first."""
        found = []
        for family, trial in self.trials.items():
            depths = range(1, len(trial.acceptance) + 1)
            predicted = [self.predict(Candidate(family, depth)) for depth in depths]
            found += sorted(predicted, key=lambda one: one.per_token)[:1]
        return sorted(found, key=lambda one: one.per_token)

    def speed_up(self, prediction: Prediction) -> float:
        """Seconds of a token of plain decoding over those of a candidate."""
        return self.predict(PLAIN).per_token / prediction.per_token

    def every(self) -> Sequence[Prediction]:
        """All candidates, plain decoding first."""
        return [
            self.predict(PLAIN),
            *(
                self.predict(Candidate(family, depth))
                for family, trial in self.trials.items()
                for depth in range(1, len(trial.acceptance) + 1)
            ),
        ]

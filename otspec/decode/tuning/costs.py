"""The cost model: tokens and seconds of a step at every depth, from trials at a few of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from otspec.decode.tuning.candidates import PLAIN, Candidate, Family


@dataclass(frozen=True)
class Trial:
    """Figures of decoding by a family, at depths that varied from step to step; of plain decoding, depth 0."""

    steps: Mapping[int, float]
    """Seconds of a step by its depth."""
    start: float
    """Seconds of a text besides its steps: preparation, and reading the prompt."""
    acceptance: tuple[float, ...] = ()
    """Entry d - 1: of the steps that may draft d tokens or more, the share that accepted d or more."""
    texts: int = 1
    """How many were decoded."""


@dataclass(frozen=True)
class Prediction:
    """The expected tokens and seconds of a candidate."""

    candidate: Candidate
    tokens: float
    """Per step."""
    step: float
    """Seconds of a step."""
    per_token: float
    """Seconds of a token, its share of the text's start among them."""


@dataclass(frozen=True)
class CostModel:
    """Predicts the times of each candidate.

    A step of L drafted tokens takes what steps of that depth took, and between the depths of the trials what a line
    gives: the passes of draft and target, and what is drawn and verified, grow with L alike.  It gives one token more
    than it accepts.

    Acceptance to depth d is that measured, whatever L >= d is.  For `block` this is exact (docs/paths.md: a path
    of d tokens is accepted or extended with probability min(A(v) p, q) summed, in which L does not occur), and so it is
    for all that verify token by token; `nested` serves its last level slightly better than the others.  What is left
    out is that the places where steps begin depend on L a little.

    Parameters
    ----------
    plain : Trial
    trials : mapping
    text : int
        New tokens of a text.
    """

    plain: Trial
    trials: Mapping[Family, Trial]
    text: int

    def trial(self, candidate: Candidate) -> Trial:
        """That of its family."""
        return self.plain if candidate.family is None else self.trials[candidate.family]

    def predict(self, candidate: Candidate) -> Prediction:
        """The expected times of a candidate."""
        trial, depth = self.trial(candidate), candidate.depth
        tokens = 1.0 + sum(trial.acceptance[:depth])
        timed = sorted(trial.steps)
        step = float(np.interp(depth, timed, [trial.steps[one] for one in timed]))
        return Prediction(candidate, tokens, step, step / tokens + trial.start / self.text)

    def best(self) -> list[Prediction]:
        """The best depth of every family, the fastest family first."""
        fastest: dict[Family | None, Prediction] = {}
        for one in sorted(self.every()[1:], key=lambda one: one.per_token):
            fastest.setdefault(one.candidate.family, one)
        return list(fastest.values())

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

"""A claim, and the evidence that random instances give for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from otspec.problem import Problem


@dataclass(frozen=True)
class Claim:
    """A statement about multi-draft problems that numbers can contradict."""

    id: str
    statement: str
    source: str
    """Key of references.bib with the theorem's number, or `otspec`."""
    draw: Callable[[np.random.Generator], Problem]
    """A random instance that meets the hypotheses."""
    margin: Callable[[Problem], float]
    """How clearly the claim holds: right minus left side of an inequality, minus the error of an equality."""
    tol: float = 1e-12
    """Margins down to -tol are rounding."""


@dataclass(frozen=True)
class Evidence:
    """What random trials found."""

    claim: Claim
    trials: int
    worst: float
    """Smallest margin seen."""
    witness: Problem
    """The instance of the smallest margin."""

    @property
    def holds(self) -> bool:
        """Whether no trial contradicts the claim."""
        return self.worst >= -self.claim.tol


def check(claim: Claim, trials: int, seed: int = 0) -> Evidence:
    """Try a claim on random instances and keep the worst."""
    rng = np.random.default_rng(seed)
    worst, witness = np.inf, claim.draw(np.random.default_rng(seed))
    for _ in range(trials):
        problem = claim.draw(rng)
        margin = claim.margin(problem)
        if not margin >= worst:  # NaN is a contradiction too
            worst, witness = margin, problem
    return Evidence(claim, trials, float(worst), witness)

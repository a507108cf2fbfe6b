"""Figures that all plans derive in the same way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from os import PathLike

import numpy as np

from otspec.laws import ArrayLike, FloatArray, Seed, as_generator, draw
from otspec.plans.storage import save
from otspec.problem import Problem


class Figures(ABC):
    """Base of the plans: what follows from acceptance, bound, conditional law and output law."""

    problem: Problem
    bound: float

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {self.problem.vocab} tokens, n = {self.problem.n}, "
            f"acceptance {self.acceptance:.6g}, gap {self.gap:.1e}, deviation {self.deviation:.1e}; "
            "draw the output with sample(drafts, rng)>"
        )

    @property
    @abstractmethod
    def acceptance(self) -> float:
        """P(the drafts are accepted), in [0, 1]."""

    @abstractmethod
    def conditional(self, drafts: ArrayLike) -> FloatArray:
        """Exact law of the output given the drafts: shape (n,) to (V,)."""

    @abstractmethod
    def output_law(self) -> FloatArray:
        """Exact law of the output over drafts and the rule's own randomness, shape (V,)."""

    @property
    def gap(self) -> float:
        """bound - acceptance, >= 0 up to rounding: 0 proves that the plan is optimal."""
        return self.bound - self.acceptance

    @cached_property
    def deviation(self) -> float:
        """L1 distance of the exact output law to p, in [0, 2]: 0 means lossless."""
        return float(np.abs(self.output_law() - self.problem.p).sum())

    @property
    def max_deviation(self) -> float:
        """The largest deviation that the rule's construction allows, 0 for a lossless rule."""
        return 0.0

    def sample(self, drafts: ArrayLike, rng: Seed) -> int:
        """Draw the output given the drafts, shape (n,)."""
        return int(draw(self.conditional(drafts), as_generator(rng, 1)))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan to a file for `otspec.plans.load`: numpy's arrays, no code.

        Raises
        ------
        ProblemError
            If the plan holds an object of a class of another package.
        DataError
            If the file cannot be written.
        """
        save(self, path)


def residual_law(p: FloatArray, served: FloatArray) -> FloatArray:
    """What p still needs after `served`, normalised: the law of the output when no draft is accepted.

    Where nothing is left, p itself: the law is then used with a probability that is 0 up to rounding.

    Parameters
    ----------
    p : ndarray, shape (V,)
        Target law.
    served : ndarray, shape (V,)
        Probability that each token is put out otherwise.

    Returns
    -------
    ndarray, shape (V,)
        A law.
    """
    residual = np.maximum(p - served, 0.0)
    total = residual.sum()
    return residual / total if total > 0 else p

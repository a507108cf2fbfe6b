"""What every plan answers."""

from __future__ import annotations

from os import PathLike
from typing import Protocol

from otspec.laws import ArrayLike, FloatArray, Seed
from otspec.problem import Problem


class Plan(Protocol):
    """A verification rule for one problem, with figures computed from the rule itself.

    The figures are what the plan measures about itself, never what its solver reported.

    Examples
    --------
    >>> import numpy as np
    >>> import otspec
    >>> plan = otspec.solve(otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))).plan
    >>> plan.gap < 1e-12, plan.deviation < 1e-12  # optimal, and lossless
    (True, True)
    >>> print(plan.conditional([2, 2]).round(3))  # the law of the output, given these drafts
    [0.219 0.    0.781]
    >>> plan.sample([2, 1], rng=0) in (0, 1, 2)
    True
    """

    @property
    def problem(self) -> Problem:
        """The problem that the plan is for."""

    @property
    def acceptance(self) -> float:
        """P(the drafts are accepted), in [0, 1]."""

    @property
    def bound(self) -> float:
        """Certified upper bound on the acceptance of every rule for this problem."""

    @property
    def gap(self) -> float:
        """bound - acceptance, >= 0 up to rounding: 0 proves that the plan is optimal."""

    @property
    def deviation(self) -> float:
        """L1 distance of the exact output law to p, in [0, 2]: 0 means lossless."""

    @property
    def max_deviation(self) -> float:
        """The largest deviation that the rule's construction allows, 0 for a lossless rule."""

    def conditional(self, drafts: ArrayLike) -> FloatArray:
        """Exact law of the output given the drafts: shape (n,) to (V,)."""

    def sample(self, drafts: ArrayLike, rng: Seed) -> int:
        """Draw the output given the drafts, shape (n,)."""

    def output_law(self) -> FloatArray:
        """Exact law of the output over drafts and the rule's own randomness, shape (V,)."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the plan to a file for `otspec.plans.load`."""

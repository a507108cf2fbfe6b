"""`canonical`: the importance-sampling problem of the canonical decomposition, in cvxpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from otspec.certificate import cells_at_most, optimum
from otspec.extras import require
from otspec.plans import Pick, PickTable
from otspec.problem import Problem
from otspec.results import Status
from otspec.schemes.draft_sets import pick_weights
from otspec.solver import Solution, Stopped, register
from otspec.solvers.base import SolverBase, refuse_above
from otspec.solvers.lp import SCALE
from otspec.tolerances import TOL


@register("canonical")
@dataclass(frozen=True)
class Canonical(SolverBase):
    """Importance sampling followed by one-draft verification [khisti2025multi; thomas2025global, eq. (19)].

    Maximises the sum over tokens of min(p, g), where g is the law of the draft picked with weights
    beta(token | drafts).  The plan recomputes g from the weights found, so it is lossless at any accuracy of
    the convex solver.

    Parameters
    ----------
    backend : str
        The solver that cvxpy calls: HIGHS (needs highspy) ends in a vertex, CLARABEL is an interior-point method.
    tol : float
        Largest gap and deviation, both probabilities, of a plan that counts as optimal.
    max_cells : int
        Largest number of weights.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> plan = otspec.solve(problem, otspec.solvers.Canonical()).plan
    >>> plan.gap < 1e-6, plan.deviation < 1e-9  # lossless at any accuracy of the convex solver
    (True, True)
    """

    backend: str = "HIGHS"
    tol: float = TOL
    max_cells: int = 20_000

    schemes: ClassVar[str] = "any whose draft sets can be listed"

    @property
    def packages(self) -> tuple[str, ...]:
        """Optional packages that the solver needs."""
        return ("cvxpy", "highspy") if self.backend == "HIGHS" else ("cvxpy",)

    def __call__(self, problem: Problem) -> Solution:
        """Solve eq. (19); the plan picks with the weights found."""
        for package in self.packages:
            require(package)
        cp: Any = require("cvxpy")
        refuse_above(self.max_cells, cells_at_most(problem), "weights")
        sets = problem.scheme.draft_sets()
        cells = np.arange(sets.cells.size)
        ones = np.ones(sets.cells.size)
        tokens, token = np.unique(sets.cells, return_inverse=True)
        by_token = csr_array((ones, (token, cells)), shape=(tokens.size, cells.size))
        by_set = csr_array((ones, (sets.owner, cells)), shape=(len(sets), cells.size))
        # The variable is beta times the set's probability, scaled: HiGHS drops coefficients below 1e-9, as are most
        # masses, and its tolerances are absolute.
        picked = cp.Variable(cells.size, nonneg=True)
        gained = cp.minimum(problem.p[tokens] * SCALE, by_token @ picked)
        program = cp.Problem(cp.Maximize(cp.sum(gained)), [by_set @ picked == sets.mass * SCALE])
        try:
            program.solve(solver=self.backend)
        except cp.SolverError as error:
            raise Stopped(Status.NUMERICAL, f"{self.backend} failed: {error}") from error
        if picked.value is None:
            raise Stopped(Status.NUMERICAL, f"{self.backend} ended with {program.status}")
        weights = pick_weights(sets, np.maximum(picked.value, 0.0))
        plan = Pick(problem, PickTable(sets, weights, problem.vocab), optimum(problem, self.max_cells).bound)
        return Solution(plan, {"sets": len(sets), "cells": cells.size})

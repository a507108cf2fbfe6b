"""`interval`: the exact near-linear solver for i.i.d. drafts, for any number of drafts and the whole vocabulary."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from otspec.kernels.interval.places import memory
from otspec.kernels.interval.plan_figures import solve_and_measure
from otspec.kernels.quadrature import quadrature
from otspec.laws import FloatArray
from otspec.plans import Pick
from otspec.plans.pick import COSTLY, DRAWN, LONGEST, TRIED
from otspec.plans.place_rule import PlaceRule
from otspec.problem import Problem
from otspec.schemes import IID, DraftScheme
from otspec.solver import Solution, register
from otspec.solvers.base import SolverBase
from otspec.tolerances import TOL


@register("interval")
@dataclass(frozen=True)
class Interval(SolverBase):
    """One sort, one concave majorant, one pass: exact for n i.i.d. drafts, at any n and any vocabulary.

    Every token owns a place on [0, 1] and may exchange parts of it with the tokens of its block; every draft shows a
    point of the place it has, and the largest point wins.  See `docs/interval.md`.

    Parameters
    ----------
    tol : float
        Largest gap and deviation, both probabilities, of a plan that counts as optimal.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> print(f"{otspec.solve(problem, otspec.solvers.Interval()).plan.acceptance:.3f}")
    0.860
    """

    tol: float = TOL

    schemes: ClassVar[str] = "i.i.d. drafts"
    takes: ClassVar[tuple[type[DraftScheme], ...]] = (IID,)
    drawn_by: ClassVar[str] = "otspec.IID"

    def __call__(self, problem: Problem) -> Solution:
        """Solve in O(V log V); the plan picks by places and exchanges."""
        assert isinstance(problem.scheme, IID)
        for law in (problem.p, problem.scheme.q):
            law.flags.writeable = False  # again, after a pickle: the kernels are compiled for laws as they were
        n, work = problem.n, memory.of(problem.vocab).work
        tried = TRIED if n <= LONGEST else 0
        found = solve_and_measure(problem.p, problem.scheme.q, n, work, tried, *_quadrature(n))
        off = found.off if found.chances else math.nan
        plan = Pick.measured(
            problem,
            PlaceRule.of(problem.scheme, found.places, found.proposal),
            found.bound,
            found.acceptance,
            (found.mass, found.laws) if found.mass.size else off,
        )
        places = found.places
        # `lotteries` is what exchanges were called, and records of benchmarks hold it.
        counts = {"tokens": places.size.size, "blocks": places.block.size - 1, "lotteries": places.threshold.size}
        return Solution(plan, counts)


@lru_cache
def _quadrature(n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Uniform numbers that draw the tuples whose weights are checked, and the quadrature that weighs them."""
    drawn = DRAWN if n <= COSTLY else 0
    return np.random.default_rng(0).random((drawn, min(n, COSTLY))), *quadrature(min(n, COSTLY))

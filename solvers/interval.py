"""`interval`: the exact near-linear solver for i.i.d. drafts, for any number of drafts and the whole vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from otspec.kernels.interval.exchange import empty_places, memory, solve_and_certify, trim
from otspec.plans import Pick
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
        work, places = memory.of(problem.vocab).work, empty_places(problem.vocab)
        sizes, _, bound = solve_and_certify(problem.p, problem.scheme.q, 1.0, 1.0, problem.n, work, places)
        plan = Pick(problem, PlaceRule(problem.scheme, trim(places, sizes)), bound)
        # `lotteries` is what exchanges were called, and records of benchmarks hold it.
        counts = {"tokens": sizes.tokens, "blocks": sizes.blocks, "lotteries": sizes.exchanges}
        return Solution(plan, counts)

"""`earliest_deadline`: the exact solver for systematic drafts, for any number of drafts and the whole vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from otspec.plans import Pick
from otspec.plans.segment_rule import optimal_segment_rule
from otspec.problem import Problem
from otspec.schemes import CircularArcs, DraftScheme
from otspec.solver import Solution, register
from otspec.solvers.base import SolverBase
from otspec.tolerances import TOL


@register("earliest_deadline")
@dataclass(frozen=True)
class EarliestDeadline(SolverBase):
    """Serve the token whose arc ends first, around the circle: exact for systematic drafts, in time O(V log V + n V).

    The statement and its proof are in `otspec.kernels.circular_arcs`.

    Parameters
    ----------
    tol : float
        Largest gap and deviation, both probabilities, of a plan that counts as optimal.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.Systematic([0.2, 0.3, 0.5], n=2))
    >>> plan = otspec.solve(problem, otspec.solvers.EarliestDeadline()).plan
    >>> print(f"{plan.acceptance:.3f} of at most {plan.bound:.3f}")
    0.900 of at most 0.900
    """

    tol: float = TOL

    schemes: ClassVar[str] = "systematic drafts"
    takes: ClassVar[tuple[type[DraftScheme], ...]] = (CircularArcs,)
    drawn_by: ClassVar[str] = "otspec.Systematic"

    def __call__(self, problem: Problem) -> Solution:
        """Solve; the plan looks up the segment of the circle on which the drafts were drawn."""
        assert isinstance(problem.scheme, CircularArcs)
        rule, minimiser = optimal_segment_rule(problem.p, problem.scheme)
        return Solution(Pick(problem, rule, problem.bound(minimiser)), {"segments": problem.scheme.cuts.size})

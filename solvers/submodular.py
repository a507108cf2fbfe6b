"""`submodular`: a certified plan for any draft scheme, from its hit function alone."""

from __future__ import annotations

import time
from dataclasses import dataclass

from otspec.plans import Pick
from otspec.problem import Problem
from otspec.solver import Solution, register
from otspec.solvers.base import SolverBase
from otspec.solvers.minimum_norm_point import Goal, OrderMixtureRule, Search
from otspec.tolerances import TOL


@register("submodular")
@dataclass(frozen=True)
class Submodular(SolverBase):
    """Minimum-norm point of the base polytope: any draft scheme, at any size, with a certified gap at every step.

    The law of the pick nearest to p is sought as a mixture of priority orders [wolfe1976finding;
    fujishige1980lexicographically].  Every step costs one `priority_law`, adds an order, and gives an upper bound, the
    best prefix of that order.  Wherever it stops, the plan is lossless and its gap is known.

    Parameters
    ----------
    tol : float
        Largest gap and deviation, both probabilities, of a plan that counts as optimal; the search stops there.
    max_steps : int
        Orders to try.
    max_seconds : float
        Time to spend.  Past either limit the plan so far is returned, FEASIBLE if its gap exceeds tol.

    Examples
    --------
    >>> import otspec
    >>> drafts = otspec.WithoutReplacement([0.1, 0.2, 0.3, 0.4], n=3)  # any draft law will do
    >>> result = otspec.solve(otspec.Problem([0.4, 0.3, 0.2, 0.1], drafts), otspec.solvers.Submodular(tol=1e-6))
    >>> result.plan.gap <= 1e-6, result.plan.deviation < 1e-9
    (True, True)
    """

    tol: float = TOL
    max_steps: int = 1000
    max_seconds: float = 60.0

    def __call__(self, problem: Problem) -> Solution:
        """Step until the gap is certified, or a limit is met, or rounding hides all progress."""
        deadline = time.perf_counter() + self.max_seconds
        compact = problem.compact()
        search = Search(compact.problem.scheme, Goal.of(compact.problem))
        search.run(0.999 * self.tol, self.max_steps, deadline)  # the plan adds its law up anew
        rule = OrderMixtureRule.of(search.best, search.goal.order, compact.tokens, problem.vocab)
        sizes = {"tokens": compact.tokens.size, "steps": search.steps, "orders": len(search.best.atoms)}
        return Solution(Pick(problem, rule, search.bound), sizes)

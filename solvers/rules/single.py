"""`single`: speculative sampling with the first draft, the others ignored."""

from __future__ import annotations

from dataclasses import dataclass

from otspec.certificate import upper_bound
from otspec.laws import FloatArray
from otspec.plans import FixedTests, Sequential
from otspec.plans.figures import residual_law
from otspec.plans.sequential import pass_probability
from otspec.problem import Problem
from otspec.schemes import IID, Independent
from otspec.solver import Solution, register
from otspec.solvers.rules.base import Rule, first_draft


@register("single")
@dataclass(frozen=True)
class Single(Rule):
    """Speculative sampling with the first draft only [leviathan2023fast; chen2023accelerating].

    With q the law of the first draft x: accept it with probability min(1, p(x)/q(x)), else draw from (p - q)+.
    Lossless for any scheme whose first draft has a known law.  Acceptance is the sum over tokens of min(p, q), the
    optimum at n = 1.

    With a lenience l below 1 it is min(1, p(x)/(l q(x))) instead, which is lossy [leviathan2023fast, appendix A.5].
    Then the output is as far from p, in total variation, as is gained: sum min(p/l, q) - sum min(p, q), at most 1 - l.

    Parameters
    ----------
    tol, max_cells
        As for `otspec.solvers.rules.base.Rule`.
    lenience : float
        l, in (0, 1].

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> plan = otspec.solve(problem, otspec.solvers.Single()).plan
    >>> print(f"{plan.acceptance:.3f} with the first of two drafts, of at most {plan.bound:.3f} with both")
    0.700 with the first of two drafts, of at most 0.860 with both
    """

    lenience: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.lenience <= 1:
            raise ValueError(f"lenience is {self.lenience:g}; it is in (0, 1], and 1 is lossless")

    def __call__(self, problem: Problem) -> Solution:
        """Set up the one test."""
        scheme = problem.scheme
        q = first_draft(scheme, self.max_cells)
        untested: tuple[FloatArray, ...] | None = None
        if isinstance(scheme, IID) or problem.n == 1:
            untested = (q,) * (problem.n - 1)
        elif isinstance(scheme, Independent):
            untested = tuple(scheme.qs[1:])
        passes = pass_probability(problem.p / self.lenience, q)
        rule = FixedTests((q,), (passes,), residual_law(problem.p, q), untested)
        return Solution(Sequential(problem, rule, upper_bound(problem), promised=2 * (1 - self.lenience)), {})

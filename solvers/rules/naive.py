"""`naive`: draw from the target and see whether the token was drafted."""

from __future__ import annotations

from dataclasses import dataclass

from otspec.certificate import upper_bound
from otspec.plans import Match
from otspec.problem import Problem
from otspec.solver import Solution, register
from otspec.solvers.rules.base import Rule, inclusion


@register("naive")
@dataclass(frozen=True)
class Naive(Rule):
    """Draw the output from p; it is accepted if it was drafted.  Lossless for any drafts, and needs no q.

    Acceptance is the sum over tokens of p(x) P(x is drafted).  Most decoders with draft trees verify in this way.

    The settings are those of `otspec.solvers.rules.base.Rule`.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> plan = otspec.solve(problem, otspec.solvers.Naive()).plan
    >>> print(f"{plan.acceptance:.3f} of at most {plan.bound:.3f}")
    0.483 of at most 0.860
    >>> print(plan.conditional([2, 2]))  # the output's law is p, whatever was drafted
    [0.5 0.3 0.2]
    """

    def __call__(self, problem: Problem) -> Solution:
        """Get from the scheme how often each token is drafted."""
        return Solution(Match(problem, inclusion(problem, self.max_cells), upper_bound(problem)), {})

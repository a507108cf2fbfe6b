"""`rrs`: recursive rejection sampling for i.i.d. drafts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from otspec.laws import FloatArray
from otspec.plans import FixedTests
from otspec.plans.figures import residual_law
from otspec.plans.sequential import pass_probability
from otspec.problem import Problem
from otspec.registry import register
from otspec.schemes import IID, DraftScheme
from otspec.solvers.rules import SequentialSolver


@register("rrs")
@dataclass(frozen=True)
class RRS(SequentialSolver):
    """Recursive rejection sampling with replacement, the multi-step rule of SpecInfer [miao2024specinfer].

    With r_1 = p, accept draft k with probability min(1, r_k/q), else r_(k+1) is (r_k - q)+, normalised; after n
    rejections draw from r_(n+1).  The r_k do not depend on the drafts, and a repeated token is tested again (and
    rejected again).  Acceptance is 1 - prod_k (1 - sum_x min(r_k, q)).  What a test rejected has no mass in the
    residual law any more, so the residual never hits a draft.

    The settings are those of `otspec.solvers.rules.SequentialSolver`.
    """

    schemes: ClassVar[str] = "i.i.d. drafts"
    takes: ClassVar[type[DraftScheme]] = IID
    reason: ClassVar[str] = "each test takes the draft for a fresh draw from q; pass otspec.IID, choose another solver"

    def rule(self, problem: Problem, q: FloatArray) -> FixedTests:
        """The n tests, O(n V)."""
        residuals = [problem.p]
        for _ in range(problem.n):
            residuals.append(residual_law(residuals[-1], q))
        passes = tuple(pass_probability(wanted, q) for wanted in residuals[:-1])
        return FixedTests((q,) * problem.n, passes, residuals[-1])

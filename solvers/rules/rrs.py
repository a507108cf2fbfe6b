"""`rrs`: recursive rejection sampling for independent drafts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from otspec.laws import FloatArray
from otspec.plans import FixedTests
from otspec.plans.figures import residual_law
from otspec.plans.sequential import pass_probability
from otspec.problem import Problem
from otspec.schemes import IID, DraftScheme, Independent
from otspec.solver import register
from otspec.solvers.rules.base import SequentialRuleSolver


@register("rrs")
@dataclass(frozen=True)
class RRS(SequentialRuleSolver):
    """Recursive rejection sampling with replacement, the multi-step rule of SpecInfer [miao2024specinfer].

    With r_1 = p, accept draft k with probability min(1, r_k/q), else r_(k+1) is (r_k - q)+, normalised; after n
    rejections draw from r_(n+1).  The r_k do not depend on the drafts, and a repeated token is tested again (and
    rejected again).  Acceptance is 1 - prod_k (1 - sum_x min(r_k, q)).  What a test rejected has no mass in the
    residual law any more, so the residual never hits a draft.

    Drafts from distinct laws, as SpecInfer has them, are tested each against its own.

    The settings are those of `otspec.solvers.rules.base.SequentialRuleSolver`.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> plan = otspec.solve(problem, otspec.solvers.RRS()).plan
    >>> print(f"{plan.acceptance:.3f} of at most {plan.bound:.3f}")
    0.760 of at most 0.860
    """

    schemes: ClassVar[str] = "independent drafts"
    takes: ClassVar[tuple[type[DraftScheme], ...]] = (IID, Independent)
    reason: ClassVar[str] = "each test takes the draft for a fresh draw from q; pass otspec.IID, choose another solver"

    def rule(self, problem: Problem, q: FloatArray) -> FixedTests:
        """The n tests, O(n V), for drafts from q, or from the rows of q if it has shape (n, V)."""
        laws = tuple(q) if q.ndim == 2 else (q,) * problem.n
        residuals = [problem.p]
        for law in laws:
            residuals.append(residual_law(residuals[-1], law))
        passes = tuple(pass_probability(target, law) for target, law in zip(residuals[:-1], laws, strict=True))
        return FixedTests(laws, passes, residuals[-1])

    def drafted_from(self, scheme: DraftScheme) -> FloatArray:
        """The q of a scheme, shape (V,), or the law of each draft, shape (n, V)."""
        return scheme.qs if isinstance(scheme, Independent) else super().drafted_from(scheme)

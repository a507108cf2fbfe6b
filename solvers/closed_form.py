"""`closed_form`: the draft laws whose optimal transport has a closed form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from otspec.certificate import single_draft_law
from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray
from otspec.plans import Pick
from otspec.problem import Problem
from otspec.schemes import FixedPlusOne
from otspec.solver import Solution, register
from otspec.solvers.base import SolverBase
from otspec.tolerances import TOL


@register("closed_form")
@dataclass(frozen=True)
class ClosedForm(SolverBase):
    """Greedy drafts [hu2025towards], top-n drafts and single drafts: one line of arithmetic per token.

    In all three only the last draft is random, with a law q.  The rule of the literature is to verify it as a single
    draft of q [chen2023accelerating]: the residual law (p - q)+ then holds all that p has on the fixed tokens, and
    meets them.  This plan does the same in another order, so that its acceptance includes these hits: where that
    rule rejects the last draft, it moves on to a fixed token as often as the residual would.

    Parameters
    ----------
    tol : float
        Largest gap and deviation, both probabilities, of a plan that counts as optimal.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.Greedy([0.2, 0.3, 0.5], n=2))  # token 2 and another
    >>> plan = otspec.solve(problem, otspec.solvers.ClosedForm()).plan
    >>> print(f"{plan.acceptance:.3f}")
    0.900
    """

    tol: float = TOL

    schemes: ClassVar[str] = "greedy, top-n, and any with n = 1"

    def supports(self, problem: Problem) -> str | None:
        """Every problem of which only the last draft is random."""
        if isinstance(problem.scheme, FixedPlusOne) or problem.n == 1:
            return None
        name = type(problem.scheme).__name__
        return f"closed_form takes otspec.Greedy, otspec.TopK and single drafts, not {problem.n} drafts of {name}"

    def __call__(self, problem: Problem) -> Solution:
        """Solve in O(V); the plan picks the last draft, or a fixed one in its place."""
        if isinstance(problem.scheme, FixedPlusOne):
            rule = LastOrFixed(problem.p, problem.scheme.last, problem.scheme.fixed)
        else:
            rule = LastOrFixed(problem.p, single_draft_law(problem), np.empty(0, dtype=np.int64))
        over_drafted = rule.last > problem.p
        over_drafted[rule.fixed] = True
        # Where p and the law of the last draft agree, nothing is rejected, and no set bounds better than the empty one.
        minimiser = np.flatnonzero(over_drafted) if rule.rejected > 0 else np.empty(0, dtype=np.int64)
        return Solution(Pick(problem, rule, problem.bound(minimiser)), {"fixed": rule.fixed.size})


@dataclass(frozen=True, eq=False)
class LastOrFixed:
    """Pick the last draft x, or with probability (1 - p(x)/q(x))+ * p(fixed)/R a fixed token in proportion to p.

    q is the law of the last draft and R the sum of (q - p)+, what verifying x against q would reject.  As q is 0 on the
    fixed tokens, R is the sum of (p - q)+ as well, and p(fixed) a part of it.  Fixed token t is picked with
    probability p(t), and g = q - (q - p)+ p(fixed)/R, at least min(p, q), is left of the law of x: the sum of
    min(p, g) is p(fixed) plus that of min(p, q).  For H the fixed tokens and those with q > p, the bound is the same.
    """

    p: FloatArray
    """Shape (V,): target law."""
    last: FloatArray
    """Shape (V,): q, the law of the last draft."""
    fixed: IntArray
    """Shape (n - 1,): the tokens that are always drafted, in their order."""

    @cached_property
    def rejected(self) -> float:
        """R."""
        return float(np.maximum(self.last - self.p, 0.0).sum())

    @cached_property
    def _handed_on(self) -> FloatArray:
        """Probability, given the last draft, of picking a fixed token in its place, shape (V,)."""
        excess = np.maximum(self.last - self.p, 0.0)
        share = min(1.0, self.p[self.fixed].sum() / self.rejected) if self.rejected > 0 else 0.0
        return np.divide(excess, self.last, out=np.zeros_like(excess), where=excess > 0) * share

    @cached_property
    def _among_fixed(self) -> FloatArray:
        """Law of the fixed token where one is picked, shape (n - 1,)."""
        total = self.p[self.fixed].sum()
        return self.p[self.fixed] / total if total > 0 else np.zeros(self.fixed.size)

    @cached_property
    def proposal(self) -> FloatArray:
        """g, shape (V,): the law of the picked token when the drafts come from the scheme."""
        law = self.last * (1.0 - self._handed_on)
        law[self.fixed] = (self.last @ self._handed_on) * self._among_fixed
        return law

    def weights(self, drafts: IntArray) -> FloatArray:
        """Probability of picking each draft, shape (n,) to (n,).

        Raises
        ------
        ProblemError
            If the drafts are not the fixed ones, in their order, and one that can be drawn.
        """
        *fixed, token = drafts.tolist()
        if self.last[token] == 0 or fixed != self.fixed.tolist():
            raise ProblemError(
                f"drafts {drafts.tolist()} have probability 0 under the scheme; draw them with its sample()"
            )
        handed_on = self._handed_on[token]
        return np.append(handed_on * self._among_fixed, 1.0 - handed_on)

"""`kseq`: the K-SEQ rule of SpecTr for i.i.d. drafts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from otspec.certificate import upper_bound
from otspec.laws import FloatArray
from otspec.plans import FixedTests, Sequential
from otspec.plans.figures import residual_law
from otspec.plans.sequential import accept_and_reject, pass_probability
from otspec.problem import Problem
from otspec.results import Status
from otspec.schemes import IID, DraftScheme
from otspec.solver import Solution, Stopped, register
from otspec.solvers.rules.base import SequentialRuleSolver
from otspec.tolerances import TIE_TOL


@register("kseq")
@dataclass(frozen=True)
class KSeq(SequentialRuleSolver):
    """K-SEQ: every draft meets the same test, with probability min(1, p/(gamma q)) to pass [sun2023spectr].

    One draft passes with probability beta = sum_x min(q, p/gamma), any of n with 1 - (1 - beta)**n.  After n failures
    draw from p - min(q, p/gamma) (1 - (1 - beta)**n)/beta, normalised, which has to be >= 0: the best gamma is the
    least for which it is, the root of gamma = sum over j < n of (1 - beta)**j.  At that gamma the residual never
    hits a draft, and acceptance is at least .8263 of the optimum, 8/9 for two drafts (docs/rules.md, Theorem 8).

    Parameters
    ----------
    tol, max_cells, allow_biased
        As for `otspec.solvers.rules.base.SequentialRuleSolver`.
    gamma : float
        At least 1, or 0 to solve for the best.  n is always lossless; one that is not is refused unless `allow_biased`.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> result = otspec.solve(problem, "kseq")  # lossless, and not optimal
    >>> print(f"{result.plan.acceptance:.3f}, at most {result.plan.bound:.3f}")
    0.791, at most 0.860
    """

    gamma: float = 0.0

    schemes: ClassVar[str] = "i.i.d. drafts"
    takes: ClassVar[tuple[type[DraftScheme], ...]] = (IID,)
    reason: ClassVar[str] = "each test takes the draft for a fresh draw from q; pass otspec.IID, choose another solver"

    def __post_init__(self) -> None:
        if not (self.gamma == 0 or 1 <= self.gamma < float("inf")):
            raise ValueError(f"gamma is {self.gamma:g}; it is at least 1, or 0 to solve for the best")

    def rule(self, problem: Problem, q: FloatArray) -> FixedTests:
        """The test that all n drafts meet, O(V) per step of the search for gamma."""
        p, n = problem.p, problem.n
        gamma = self.gamma or best_gamma(p, q, n)
        laws, passes = (q,) * n, (pass_probability(p / gamma, q),) * n
        return FixedTests(laws, passes, residual_law(p, accept_and_reject(laws, passes)[0]))

    def __call__(self, problem: Problem) -> Solution:
        """As for every sequential rule; a gamma below the best one is lossy on its own draft law too."""
        scheme = problem.scheme
        if self.gamma and isinstance(scheme, IID):
            best = best_gamma(problem.p, scheme.q, problem.n)
            if self.gamma < best - TIE_TOL:
                if not self.allow_biased:
                    raise Stopped(
                        Status.UNSUPPORTED,
                        f"gamma = {self.gamma:g} is below {best:.9g}, the least that is lossless here; leave it out, "
                        "or measure the bias with allow_biased=true",
                    )
                plan = Sequential(problem, self.rule(problem, scheme.q), upper_bound(problem), promised=2.0)
                return Solution(plan, {})
        return super().__call__(problem)


def best_gamma(p: FloatArray, q: FloatArray, n: int) -> float:
    """The least gamma for which K-SEQ with n i.i.d. drafts from q is lossless.

    The load on a token that always passes is sum over j < n of (1 - beta)**j times min(q, p/gamma) <= p/gamma.  That
    sum falls with beta, and beta with gamma, so what is sought is the one sign change of the sum minus gamma.  It is
    found to the last digits, of which gamma itself has few where p and q nearly agree: the sum then hardly differs from
    gamma near 1, and any gamma there accepts all but 1e-15.

    Parameters
    ----------
    p, q : ndarray, shape (V,)
        Target and draft law.
    n : int
        Number of drafts.

    Returns
    -------
    float
        From 1 to n.
    """

    def excess(gamma: float) -> float:
        failure = max(1.0 - float(np.minimum(q, p / gamma).sum()), 0.0)
        return sum(failure**j for j in range(n)) - gamma

    if excess(1.0) <= 0:
        return 1.0
    ulp = 4 * np.finfo(np.float64).eps
    return float(brentq(excess, 1.0, float(n), xtol=ulp, rtol=ulp))

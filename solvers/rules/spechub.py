"""`spechub`: the optimal rule for hub pairs, in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from otspec.certificate import upper_bound
from otspec.laws import FloatArray, IntArray
from otspec.plans import Sequential
from otspec.plans.figures import residual_law
from otspec.plans.sequential import pass_probability
from otspec.problem import Problem
from otspec.schemes import IID, DraftScheme, HubPairs
from otspec.solver import Solution, register
from otspec.solvers.base import SolverBase
from otspec.solvers.rules.single import Single
from otspec.tolerances import TOL


@register("spechub")
@dataclass(frozen=True)
class SpecHub(SolverBase):
    """SpecHub: pairs of the likeliest token, the hub, and another, which is served first [sun2024spechub].

    Off the hub, pairs (i, hub) serve p(i) first and pairs (hub, i) what is missing; pairs that are then unused serve
    the hub.  Acceptance is p(hub) + the sum of min(p, others) off the hub: the optimum of its own draft law, and that
    of greedy drafts at n = 2.  A single draft, as a node of one child has in a tree of hub pairs, is tested as
    `otspec.solvers.Single` does, which is optimal for one.

    Parameters
    ----------
    tol : float
        Largest gap and deviation, both probabilities, of a plan that counts as optimal.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.HubPairs([0.2, 0.3, 0.5]))
    >>> plan = otspec.solve(problem, otspec.solvers.SpecHub()).plan
    >>> print(f"{plan.acceptance:.3f} of at most {plan.bound:.3f}")
    0.900 of at most 0.900
    """

    tol: float = TOL

    schemes: ClassVar[str] = "hub pairs"
    takes: ClassVar[tuple[type[DraftScheme], ...]] = (HubPairs,)
    drawn_by: ClassVar[str] = "otspec.HubPairs"

    def supports(self, problem: Problem) -> str | None:
        """None for hub pairs and for one draft, else what it takes."""
        return None if problem.n == 1 and isinstance(problem.scheme, IID) else super().supports(problem)

    def __call__(self, problem: Problem) -> Solution:
        """Set the tests up in O(V)."""
        if isinstance(problem.scheme, IID):
            return Single()(problem)
        assert isinstance(problem.scheme, HubPairs)
        return Solution(Sequential(problem, HubTests(problem.p, problem.scheme), upper_bound(problem)), {})


@dataclass(frozen=True, eq=False)
class HubTests:
    """The token beside the hub is tested first, then the hub; a sequential rule."""

    p: FloatArray
    """Shape (V,): target law."""
    scheme: HubPairs

    @cached_property
    def _drafted(self) -> tuple[FloatArray, FloatArray]:
        """P((i, hub)) and P((hub, i)) by i, each of shape (V,); a pair of two hubs counts as neither."""
        first = self.scheme.q.copy()
        second = self.scheme.q[self.scheme.hub] * self.scheme.others
        first[self.scheme.hub] = second[self.scheme.hub] = 0.0
        return first, second

    @cached_property
    def _missing(self) -> FloatArray:
        """What pairs (i, hub) leave of p(i), shape (V,)."""
        return np.maximum(self.p - self._drafted[0], 0.0)

    @cached_property
    def _passes(self) -> tuple[FloatArray, FloatArray]:
        """Probability that i passes in (i, hub) and in (hub, i), each of shape (V,)."""
        first, second = self._drafted
        return pass_probability(self.p, first), pass_probability(self._missing, second)

    @cached_property
    def _unused(self) -> float:
        """P(the token beside the hub does not pass), as a sum of positive terms; at least p(hub)."""
        both = zip(self._drafted, self._passes, strict=True)
        twice = self.scheme.others[self.scheme.hub]  # two hubs: 1 where q is certain of one token, else 0
        return float(sum(drafted @ (1.0 - passes) for drafted, passes in both) + twice)

    @cached_property
    def _hub_passes(self) -> float:
        target = self.p[self.scheme.hub]
        return float(target / self._unused) if target < self._unused else 1.0

    @cached_property
    def _accepted(self) -> FloatArray:
        """Probability, shape (V,), that each token passes its test."""
        accepted = sum(drafted * passes for drafted, passes in zip(self._drafted, self._passes, strict=True))
        assert isinstance(accepted, np.ndarray)
        accepted[self.scheme.hub] = self._unused * self._hub_passes
        return accepted

    @cached_property
    def _last(self) -> FloatArray:
        return residual_law(self.p, self._accepted)

    @property
    def acceptance(self) -> float:
        """P(a draft passes its test)."""
        return float(self._accepted.sum())

    @property
    def membership(self) -> float:
        """P(the output is one of the drafts): a token that failed has no mass in the residual law."""
        return self.acceptance

    def output_law(self) -> FloatArray:
        """Exact law of the output, shape (V,)."""
        return self._accepted + self._unused * (1.0 - self._hub_passes) * self._last

    def tests(self, drafts: IntArray) -> Iterator[tuple[int, float]]:
        """The token of a pair, shape (2,), that stands beside the hub, then the hub."""
        hub_second = int(drafts[1] == self.scheme.hub)
        other = int(drafts[1 - hub_second])
        if other != self.scheme.hub:
            yield other, float(self._passes[1 - hub_second][other])
        yield self.scheme.hub, self._hub_passes

    def residual(self, drafts: IntArray) -> FloatArray:
        """The same law, shape (V,), whatever the drafts."""
        return self._last

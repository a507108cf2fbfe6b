"""`global_resolution`: two small convex programs in place of a linear program over all tuples, nearly lossless."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from otspec.laws import ArrayLike, FloatArray
from otspec.problem import Problem
from otspec.results import Status
from otspec.schemes import IID, DraftScheme, Independent, WithoutReplacement
from otspec.solver import Solution, Stopped, register
from otspec.solvers.base import SolverBase
from otspec.solvers.global_resolution.plan import Resolution, Solved
from otspec.solvers.global_resolution.softmax import minimise
from otspec.solvers.global_resolution.systems import Split, System
from otspec.tolerances import TOL

PUBLISHED_LIMITS = {1: 1000, 2: 50, 3: 20}
"""Largest |T| by n, 10 for every n above [thomas2025global, Appendix K]; the paper does not mention n = 1."""


@register("global_resolution")
@dataclass(frozen=True)
class GlobalResolution(SolverBase):
    """Softmax solutions of both complementary slackness systems [thomas2025global, section 6, Algorithm 1].

    The output law is off p by at most (3 stop + 4) tau in 1-norm, and the acceptance off alpha* by at most
    (stop + 1) tau.  It stops without a plan where the truncation stays too large or the minimisation takes too long.
    `docs/global_resolution.md` shows where the printed algorithm had to be corrected, and how it takes the other drafts
    of [thomas2025global, Table 5]: without replacement, and two from different laws.

    Parameters
    ----------
    tau : float
        Probability of the tuples that a truncation may drop.
    stop : float
        Gradient, in 1-norm and units of tau, at which a minimisation ends.  3 gives 13 tau, where the paper promises
        15; the 5 that it prints gives 19 tau.
    max_tokens : int
        Largest |T|; 0 stands for the limits of the paper, 50, 20, 10, 10 for n = 2, 3, 4, 5.
    max_iterations : int
        Iterations of L-BFGS-B.
    max_sets : int
        Draft sets over which the plan computes its exact figures; for more it reports its certified bounds.
    tol : float
        Largest gap and deviation of a plan that counts as optimal, as happens when a problem is easy.

    Raises
    ------
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> plan = otspec.solve(problem, otspec.solvers.GlobalResolution(tau=1e-3)).plan
    >>> plan.gap < 4e-3, plan.deviation < 13e-3  # optimal, and lossless, up to multiples of tau
    (True, True)
    """

    tau: float = 1e-3
    stop: float = 3.0
    max_tokens: int = 0
    max_iterations: int = 25
    max_sets: int = 20_000
    tol: float = TOL

    exact: ClassVar[bool] = False
    schemes: ClassVar[str] = "i.i.d. drafts, drafts without replacement, two independent ones"
    takes: ClassVar[tuple[type[DraftScheme], ...]] = (IID, WithoutReplacement, Independent)
    drawn_by: ClassVar[str] = "otspec.IID, otspec.WithoutReplacement, otspec.Independent"
    variants: ClassVar[tuple[str, ...]] = ("global_resolution:tau=1e-4",)

    def __post_init__(self) -> None:
        if not 0 < self.tau < 1:
            raise ValueError(f"tau = {self.tau:g} is not a probability; take one between 0 and 1, such as 1e-3")
        if not self.stop > 0:
            raise ValueError(f"stop = {self.stop:g} would never be reached; take a positive number of taus, such as 3")
        if self.max_tokens < 0:
            raise ValueError(f"max_tokens = {self.max_tokens} is not a limit; take 0 for those of the paper, or more")
        if self.max_iterations < 1:
            raise ValueError(f"max_iterations = {self.max_iterations} leaves nothing to do; take 1 or more")

    def supports(self, problem: Problem) -> str | None:
        """Those of [thomas2025global, Table 5] that it can be extended to."""
        if isinstance(problem.scheme, Independent) and problem.n > 2:
            return (
                f"global_resolution takes two independent drafts from laws of their own, not {problem.n}: for more, "
                "nothing is known that finds H* in the time of a solve [thomas2025global, Table 5]; "
                "take distinct_drafters"
            )
        return super().supports(problem)

    def __call__(self, problem: Problem) -> Solution:
        """Solve both systems."""
        split = Split.of(problem)
        outer, inner = self._solve(split.outer), self._solve(split.inner)
        plan = Resolution(problem, split.bound, split, outer, inner, self.max_sets)
        sizes = {
            "outer_tokens": outer.variables,
            "inner_tokens": inner.variables,
            "outer_iterations": outer.iterations,
            "inner_iterations": inner.iterations,
        }
        return Solution(plan, sizes)

    def conditional(self, problem: Problem, drafts: ArrayLike) -> FloatArray:
        """Law of the output given one tuple of drafts, by the one system that it needs.

        Parameters
        ----------
        problem : Problem
        drafts : array_like of int, shape (n,)

        Returns
        -------
        ndarray, shape (V,)
            The same law as the full plan's `conditional`.

        Raises
        ------
        ProblemError
            If the drafts are not a tuple of the scheme, or have probability 0 under it.
        Stopped
            If that system exceeds max_tokens or max_iterations, or the search for H* its size.
        """
        drafts, split = problem.check_drafts(drafts), Split.of(problem)
        return self._solve(split.system_of(drafts)).conditional(drafts, split.residual)

    def _solve(self, system: System) -> Solved:
        size, leak = system.truncate(self.tau)
        limit = self.max_tokens or PUBLISHED_LIMITS.get(system.n, 10)
        if size > limit:
            raise Stopped(
                Status.LIMIT,
                f"the {system.name} system needs |T| = {size:,} tokens at tau = {self.tau:g}, more than "
                f"max_tokens = {limit}; truncate the drafts, raise max_tokens, or chain another solver",
            )
        index, mass = system.sets(size)
        found = minimise(index, mass, system.slack, system.targets[:size], self.stop * self.tau, self.max_iterations)
        if not found.slope <= self.stop * self.tau:
            raise Stopped(
                Status.LIMIT,
                f"{found.iterations} iterations leave the {system.name} gradient at {found.slope:.2g}, above "
                f"stop * tau = {self.stop * self.tau:.2g}; raise max_iterations (now {self.max_iterations})",
            )
        alpha = np.zeros(system.tokens.size)
        alpha[:size] = found.alpha
        return Solved(system, size, alpha, leak, found.slope, found.iterations)

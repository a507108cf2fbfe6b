"""The plan that reads the drafts only after the output is drawn."""

from __future__ import annotations

from dataclasses import dataclass

from otspec.laws import ArrayLike, FloatArray, Seed, as_generator, as_tuple, draw
from otspec.plans.figures import Figures
from otspec.problem import Problem


@dataclass(frozen=True, eq=False, repr=False)
class Match(Figures):
    """Draw the output from p, whatever the drafts, and see whether it is one of them.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> plan = otspec.solve(problem, "naive").plan
    >>> print(type(plan).__name__, plan.inclusion.round(2))  # P(each token is drafted)
    Match [0.36 0.51 0.75]
    >>> print(f"{plan.acceptance:.3f}")
    0.483
    """

    problem: Problem
    inclusion: FloatArray
    """P(the token is one of the drafts), shape (V,)."""
    bound: float

    @property
    def acceptance(self) -> float:
        """P(the output is one of the drafts) = sum_x p(x) P(x is drafted)."""
        return float(self.problem.p @ self.inclusion)

    @property
    def membership(self) -> float:
        """P(the output is one of the drafts): nothing else counts as accepted here."""
        return self.acceptance

    def conditional(self, drafts: ArrayLike) -> FloatArray:
        """Exact law of the output given the drafts, shape (n,) to (V,): p.

        Raises
        ------
        ProblemError
            If the drafts are not a tuple of tokens.
        """
        as_tuple(drafts, self.problem.n, self.problem.vocab)
        return self.problem.p.copy()

    def sample(self, drafts: ArrayLike, rng: Seed) -> int:
        """Draw the output from p, whatever the drafts, shape (n,).

        Raises
        ------
        ProblemError
            As for `conditional`.
        """
        as_tuple(drafts, self.problem.n, self.problem.vocab)
        return int(draw(self.problem.p, as_generator(rng, 1)))

    def output_law(self) -> FloatArray:
        """Exact law of the output, shape (V,): p, since the draw does not see the drafts."""
        return self.problem.p.copy()

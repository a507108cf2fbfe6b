"""The plan that accepts most among all whose output may be off the target by a given price."""

from __future__ import annotations

from dataclasses import dataclass

from otspec.errors import ProblemError
from otspec.laws import ArrayLike, FloatArray, Seed
from otspec.plans.coupling import Coupling
from otspec.plans.figures import Figures
from otspec.plans.pick import Pick, canonical_decomposition
from otspec.plans.protocol import Plan
from otspec.problem import Problem


@dataclass(frozen=True, eq=False, repr=False)
class Lossy(Figures):
    """Pick a draft as a lossless plan does, and verify it for a target that lies on the way to its law g.

    That target is (1 - s) p + s g, at total variation s TV(p, g) from p: the acceptance grows by the price, and no rule
    gains more (`docs/lossy.md`).

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> plan = otspec.best_lossy_plan(problem, 0.05)
    >>> print(f"{plan.acceptance:.3f} at total variation {plan.deviation / 2:.3f}, of at most {plan.bound:.3f}")
    0.910 at total variation 0.050, of at most 0.910
    """

    problem: Problem
    shifted: Pick
    """The plan for the other target, lossless for that."""
    price: float
    """The total variation that is paid."""
    bound: float
    """No rule at this price accepts more."""

    @classmethod
    def of(cls, plan: Plan, price: float) -> Lossy:
        """What becomes of a lossless plan; it pays no more than what it takes to accept always.

        Raises
        ------
        ProblemError
            If the plan does not pick a draft.
        """
        pick = canonical_decomposition(plan) if isinstance(plan, Coupling) else plan
        if not isinstance(pick, Pick):
            raise ProblemError(
                f"the plan is a {type(plan).__name__}, which picks no draft whose law is known; solve with a solver "
                "whose plan is a Pick or a Coupling, such as max_flow"
            )
        problem, refused = plan.problem, 1.0 - pick.acceptance
        share = min(price / refused, 1.0) if refused > 0.0 else 0.0
        target = (1.0 - share) * problem.p + share * pick.proposal
        shifted = Pick(Problem(target / target.sum(), problem.scheme), pick.rule, 1.0)
        return cls(problem, shifted, share * max(refused, 0.0), min(pick.bound + price, 1.0))

    @property
    def acceptance(self) -> float:
        """P(the picked draft is accepted), in [0, 1]."""
        return self.shifted.acceptance

    @property
    def max_deviation(self) -> float:
        """Twice the price, as an L1 distance."""
        return 2.0 * self.price

    def conditional(self, drafts: ArrayLike) -> FloatArray:
        """Exact law of the output given the drafts: shape (n,) to (V,).

        Raises
        ------
        ProblemError
            If the drafts are not a tuple of the scheme, or have probability 0 under it.
        """
        return self.shifted.conditional(drafts)

    def sample(self, drafts: ArrayLike, rng: Seed) -> int:
        """Draw the output given the drafts, shape (n,).

        Raises
        ------
        ProblemError
            As for `conditional`.
        """
        return self.shifted.sample(drafts, rng)

    def output_law(self) -> FloatArray:
        """Exact law of the output over drafts and the rule's own randomness, shape (V,)."""
        return self.shifted.output_law()

"""A plan in two steps: pick one draft, then verify it as a single draft of the law that the pick has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeGuard

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import ArrayLike, FloatArray, IntArray, Seed, as_generator, as_tuple, draw, draw_from_cumulative
from otspec.plans.coupling import Coupling
from otspec.plans.figures import Figures, residual_law
from otspec.problem import Problem
from otspec.schemes import DraftSets
from otspec.schemes.draft_sets import pick_law, pick_weights
from otspec.tolerances import TIE_TOL

TRIED = 64
"""The law of the output is summed up over all tuples of drafts if there are no more than this."""

DRAWN = 4
"""Tuples on which the weights of a rule are checked if there are more."""

COSTLY = 16
"""Drafts beyond which weights are not worth their time, for a rule that can do without them."""

LONGEST = 2000
"""Drafts beyond which tuples are not listed, however few can occur."""


class PickRule(Protocol):
    """A random choice among the drafts whose law is known."""

    @property
    def proposal(self) -> FloatArray:
        """g, shape (V,): the law of the picked token when the drafts come from the scheme."""

    def weights(self, drafts: IntArray) -> FloatArray:
        """Probability of picking each draft, shape (n,) to (n,), summing to 1, in any way among equal drafts."""


class DrawingRule(PickRule, Protocol):
    """A rule that draws its pick in less time than it takes to write down the weights."""

    def pick(self, drafts: IntArray, rng: np.random.Generator) -> int:
        """Index of the picked one of the drafts, shape (n,)."""


def draws(rule: PickRule) -> TypeGuard[DrawingRule]:
    """Whether a rule is a `DrawingRule`; `isinstance` on a protocol takes a tenth of a small solve."""
    return hasattr(rule, "pick")


@dataclass(frozen=True, eq=False, repr=False)
class Pick(Figures):
    """Pick a draft by a rule, verify it against its proposal law g [khisti2025multi; chen2023accelerating].

    The picked token x is accepted with probability min(1, p(x)/g(x)); otherwise the output is drawn from (p - g)+,
    normalised.  The output law is p for every rule whose g is exact, optimal or not.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> plan = otspec.solve(problem, "interval").plan
    >>> print(type(plan).__name__, plan.proposal.round(3))  # the law of the picked draft
    Pick [0.36  0.384 0.256]
    >>> print(f"a picked draft is accepted with probability {plan.acceptance:.3f}")
    a picked draft is accepted with probability 0.860
    """

    problem: Problem
    rule: PickRule
    bound: float

    @classmethod
    def measured(
        cls,
        problem: Problem,
        rule: PickRule,
        bound: float,
        acceptance: float,
        deviation: float | tuple[FloatArray, FloatArray],
    ) -> Pick:
        """A plan whose figures a kernel has measured as the plan itself would.

        Parameters
        ----------
        problem, rule, bound
            The fields of the plan.
        acceptance : float
        deviation : float, or a pair of arrays of shapes (m,) and (m, V)
            Or the probabilities of all tuples that can occur, and the laws of the output given each.
        """
        plan = cls(problem, rule, bound)
        off = deviation if isinstance(deviation, float) else plan._off(*deviation)
        vars(plan).update(acceptance=acceptance, deviation=off)  # where `cached_property` looks first
        return plan

    @cached_property
    def proposal(self) -> FloatArray:
        """g, shape (V,): the law of the picked draft."""
        return self.rule.proposal

    @cached_property
    def residual(self) -> FloatArray:
        """Law, shape (V,), of the output when the picked draft is rejected."""
        return residual_law(self.problem.p, self.proposal)

    @cached_property
    def _residual_cumulative(self) -> FloatArray:
        return np.cumsum(self.residual)

    @cached_property
    def acceptance(self) -> float:
        """P(the picked draft is accepted) = sum_x min(p(x), g(x)).

        A residual draw may hit another draft, so P(output is one of the drafts) is at least this; both agree where
        the plan is optimal.
        """
        return float(np.minimum(self.problem.p, self.proposal).sum())

    def conditional(self, drafts: ArrayLike) -> FloatArray:
        """Exact law of the output given the drafts: shape (n,) to (V,).

        Raises
        ------
        ProblemError
            If the drafts are not a tuple of the scheme, or have probability 0 under it.
        """
        drafts = as_tuple(drafts, self.problem.n, self.problem.vocab)
        accepted = self.rule.weights(drafts) * self._acceptance_of(drafts)
        law = self.residual * max(1.0 - accepted.sum(), 0.0)
        np.add.at(law, drafts, accepted)
        return law

    def sample(self, drafts: ArrayLike, rng: Seed) -> int:
        """Draw the output given the drafts, shape (n,): pick one, accept it or draw from the residual law.

        Raises
        ------
        ProblemError
            As for `conditional`.
        """
        drafts = as_tuple(drafts, self.problem.n, self.problem.vocab)
        rule, rng = self.rule, as_generator(rng, 1)
        token = drafts[rule.pick(drafts, rng) if draws(rule) else draw(rule.weights(drafts), rng)]
        if rng.random() * self.proposal[token] < self.problem.p[token]:
            return int(token)
        return int(draw_from_cumulative(self._residual_cumulative, rng))

    def output_law(self) -> FloatArray:
        """Exact law of the output over drafts and the rule's own randomness, shape (V,)."""
        return np.minimum(self.problem.p, self.proposal) + (1.0 - self.acceptance) * self.residual

    @cached_property
    def deviation(self) -> float:
        """L1 distance of the output law to p, in [0, 2]; nan where the weights of the rule are not probabilities.

        The law is that which follows from g, the rule's own statement; so its weights are checked as well, as far
        as that is cheap.  If no more than `TRIED` tuples can occur, all are, and the law of the output is summed up
        from them, whatever g is.  Otherwise a few tuples are drawn, and checked for weights that are
        finite, >= 0, and sum to 1.
        """
        scheme = self.problem.scheme
        if scheme.n <= LONGEST and scheme.support_size() <= TRIED:
            tuples, mass = scheme.support()
            return self._off(mass, np.array([self.conditional(drafts) for drafts in tuples]))
        output = float(np.abs(self.output_law() - self.problem.p).sum())
        costly = draws(self.rule) and scheme.n > COSTLY
        tuples = scheme.sample(np.random.default_rng(0), 0 if costly else DRAWN)
        return output if all(_are_chances(self.rule.weights(drafts)) for drafts in tuples) else math.nan

    def _off(self, mass: FloatArray, laws: FloatArray) -> float:
        """L1 distance to p of the mean of the conditional laws, shape (m, V), of tuples of probability mass, (m,)."""
        return float(np.abs(mass @ laws - self.problem.p).sum())

    def _acceptance_of(self, tokens: IntArray) -> FloatArray:
        p, g = self.problem.p[tokens], self.proposal[tokens]
        return np.divide(p, g, out=np.ones_like(p), where=g > p)


def _are_chances(weights: FloatArray) -> bool:
    """Whether they are probabilities that sum to 1; False for nan."""
    return bool((weights >= 0).all() and abs(weights.sum() - 1) <= weights.size * TIE_TOL)


@dataclass(frozen=True, eq=False)
class PickTable:
    """A pick rule as a table over draft sets: the importance weights beta of [khisti2025multi].

    Examples
    --------
    >>> import numpy as np
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> rule = otspec.canonical_decomposition(otspec.solve(problem, "max_flow").plan).rule
    >>> print(rule.weights(np.array([0, 2])).round(3))  # of these two drafts the first is picked
    [1. 0.]
    """

    sets: DraftSets
    cell_weights: FloatArray
    """Shape (cells,): beta(token | set) of each cell, summing to 1 over each set."""
    vocab: int

    @cached_property
    def proposal(self) -> FloatArray:
        """g, shape (V,): the law of the picked token when the drafts come from the scheme."""
        return pick_law(self.sets, self.cell_weights, self.vocab)

    def weights(self, drafts: IntArray) -> FloatArray:
        """Probability of picking each draft, shape (n,) to (n,); the first of equal tokens takes it all."""
        row = self.sets.find(drafts)
        _, first = np.unique(drafts, return_index=True)
        weights = np.zeros(drafts.shape)
        weights[first] = self.cell_weights[self.sets.indptr[row] : self.sets.indptr[row + 1]]
        return weights


def canonical_decomposition(coupling: Coupling) -> Pick:
    """The pick rule of an optimal coupling: importance sampling, then one-draft verification.

    beta is the coupling normalised per draft set, uniform where the set accepts nothing [thomas2025global, Theorem
    4.1, eq. (5)].  The acceptance of the result is at least the coupling's own, residual hits apart.

    Parameters
    ----------
    coupling : Coupling
        Of `max_flow`, `slackness` or `lp`.

    Raises
    ------
    ProblemError
        If the plan is no coupling.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> pick = otspec.canonical_decomposition(otspec.solve(problem, "max_flow").plan)
    >>> print(f"{pick.acceptance:.3f} {pick.proposal.sum():.3f}")  # proposal: the law of the picked draft
    0.860 1.000
    """
    if not isinstance(coupling, Coupling):
        raise ProblemError(
            f"the plan is a {type(coupling).__name__}, and only a Coupling is a table to decompose: solve with "
            "max_flow, slackness or lp. A Pick is decomposed already."
        )
    sets = coupling.sets
    rule = PickTable(sets, pick_weights(sets, coupling.accepted), coupling.problem.vocab)
    return Pick(coupling.problem, rule, coupling.bound)

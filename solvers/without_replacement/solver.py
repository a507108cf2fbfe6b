"""`without_replacement`: near-optimal plans of such drafts, with one number per token, in milliseconds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from otspec.laws import IntArray
from otspec.plans import Pick, PickRule
from otspec.problem import Problem
from otspec.schemes import DraftScheme, WithoutReplacement
from otspec.solver import Solution, register
from otspec.solvers.base import SolverBase
from otspec.solvers.minimum_norm_point import Atom, Goal, OrderMixture, OrderMixtureRule, Search
from otspec.solvers.without_replacement.fit import fit_block
from otspec.solvers.without_replacement.rule import Mixture, ReleaseRule

NEGLIGIBLE = 0.02
"""Share of tol that a block may lose by plain priority before it is fitted."""


@register("without_replacement")
@dataclass(frozen=True)
class WithoutReplacementSolver(SolverBase):
    """Release probabilities for drafts without replacement: lossless, with a certified gap of 1e-4 in milliseconds.

    Every token owns a release probability; the first released draft in the order of p/q is picked, or any if none is.
    Where that does not reach tol, the minimum-norm point takes over from there.  See
    `docs/without_replacement.md`.

    Parameters
    ----------
    tol : float
        Largest gap, a probability, of a plan that counts as optimal; the search stops there.
    max_steps : int
        Priority orders to try where release probabilities are not enough.
    max_seconds : float
        Time to spend on that.  Past either limit the plan so far is returned, FEASIBLE if its gap exceeds tol.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.WithoutReplacement([0.2, 0.3, 0.5], n=2))
    >>> otspec.solve(problem, otspec.solvers.WithoutReplacementSolver()).plan.gap <= 1e-4
    True
    """

    tol: float = 1e-4
    max_steps: int = 300
    max_seconds: float = 10.0

    exact: ClassVar[bool] = False
    schemes: ClassVar[str] = "drafts without replacement"
    takes: ClassVar[tuple[type[DraftScheme], ...]] = (WithoutReplacement,)
    drawn_by: ClassVar[str] = "otspec.WithoutReplacement"

    def __call__(self, problem: Problem) -> Solution:
        """Fit the blocks that plain priority serves badly; then step from there as long as it takes."""
        deadline = time.perf_counter() + self.max_seconds
        compact = problem.compact()
        scheme = compact.problem.scheme
        assert isinstance(scheme, WithoutReplacement)
        goal = Goal.of(compact.problem)
        tol = 0.999 * self.tol  # the plan adds its law up anew
        layers, fitted = fit(scheme, goal, compact.tokens, problem.vocab, tol)
        search = Search(scheme, goal, Atom(layers.law))
        search.run(tol, self.max_steps, deadline)
        steps = search.steps
        if search.gap > tol and fitted:
            again = Search(scheme, goal)
            again.run(tol, self.max_steps, deadline)
            steps += again.steps
            again.bound = search.bound = min(again.bound, search.bound)
            search = min(search, again, key=lambda one: one.gap)
        rule = rule_of(search.best, layers, goal, compact.tokens)
        sizes = {"tokens": compact.tokens.size, "fitted": fitted, "steps": steps, "orders": len(search.best.atoms)}
        return Solution(Pick(problem, rule, search.bound), sizes)


def fit(scheme: WithoutReplacement, goal: Goal, tokens: IntArray, vocab: int, tol: float) -> tuple[ReleaseRule, int]:
    """Release probabilities for all blocks, and the number of blocks where it takes more than plain priority.

    Parameters
    ----------
    scheme : WithoutReplacement
        Of the compact problem.
    goal : Goal
        Of that problem.
    tokens : ndarray of int, shape (k,)
        Original ids of the tokens that can be drafted.
    vocab : int
        Number of tokens V of the original problem.
    tol : float
        Mass that all blocks may lose together, a probability.
    """
    ends = np.append(goal.starts[1:], goal.order.size)
    law, released = goal.by_order.copy(), np.ones(goal.order.size)
    attainable = np.minimum(goal.p, goal.law)
    lost = np.add.reduceat(np.maximum(attainable - law, 0.0), goal.starts)
    worst = np.flatnonzero((lost > NEGLIGIBLE * tol) & (ends - goal.starts > 1))
    q, heavy = scheme.q[goal.order], scheme.heavy[goal.order]
    for number in worst:
        block = slice(int(goal.starts[number]), int(ends[number]))
        share = 0.8 * tol / worst.size
        plain = goal.by_order[block]
        fitted = fit_block(q, heavy, block, goal.p[block], goal.law[block], plain, scheme.n, scheme.nodes, share)
        law[block], released[block] = fitted.law, fitted.released
    return ReleaseRule(tokens[goal.order], goal.starts, released, law, vocab), worst.size


def rule_of(mixture: OrderMixture, layers: ReleaseRule, goal: Goal, tokens: IntArray) -> PickRule:
    """The pick rule of a mixture over priority orders and the release rule, for tokens of original ids, shape (k,)."""
    orders = np.array([atom.ranking is not None for atom in mixture.atoms])
    share = float(mixture.shares[~orders].sum())
    if not orders.any():
        return layers
    atoms = [atom for atom in mixture.atoms if atom.ranking is not None]
    shares = mixture.shares[orders] / mixture.shares[orders].sum()
    by_order = OrderMixtureRule.of(OrderMixture(atoms, shares, mixture.acceptance), goal.order, tokens, layers.vocab)
    return Mixture((layers, by_order), share) if share > 0 else by_order

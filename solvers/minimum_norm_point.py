"""The law nearest to a given one among those that a choice of draft can have: Wolfe's algorithm over priority orders.

The laws g of the picked draft are the bases of the hit function f.  Its base polytope has f's *priority laws* as its
vertices: fix an order of the tokens, pick the draft that comes first [edmonds1970submodular].  So a linear function is
minimised by sorting, and a point of the polytope is a mixture over orders, which is a plan.

The aim is the least sum (g - goal)**2 / weight.  With p as the goal, the tokens that end below p minimise f(A) - p(A)
for *any* positive weights, as separable convex functions over base polytopes do [fujishige1980lexicographically], and
so g maximises the acceptance sum min(p, g).  Weights about p serve best; tokens with little or no p get a floor.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from otspec.certificate import best_prefix, minorant
from otspec.errors import ProblemError
from otspec.jit import jit
from otspec.laws import FloatArray, IntArray, distinct, sum_by
from otspec.problem import Problem
from otspec.schemes import DraftScheme
from otspec.solver import most_gap

FLOOR = 1e-9
"""Least weight of a token: below this, to be off by a given mass is no worse."""

EPS, TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)

RIDGE = 1e-14
"""Relative, on the diagonal of scalar products: keeps points that are nearly dependent from splitting one share."""


class Atom(NamedTuple):
    """A way of picking a draft and the law of its pick, both along `Goal.order`."""

    law: FloatArray
    """Shape (k,): P(the pick is this token)."""
    ranking: IntArray | None = None
    """Shape (k,): positions in `Goal.order` by priority; None for a rule of another kind."""


@dataclass(frozen=True, eq=False)
class Goal:
    """What law to come near to, and in which face of the base polytope to search for it."""

    order: IntArray
    """Shape (k,): tokens.  The arrays below follow this order."""
    starts: IntArray
    """Shape (blocks,): where in `order` they start.  A block comes before all later ones in every order tried."""
    p: FloatArray
    """Shape (k,): target law."""
    law: FloatArray
    """Shape (k,): the law to come near to."""
    by_order: FloatArray
    """Shape (k,): law of the pick by `order` itself."""

    @classmethod
    def of(cls, problem: Problem) -> Goal:
        """Where prefixes of one order decide, the blocks of the minorant of f against p and the law along it; else p.

        On a block of slope s the law that serves best is s p, and it is a base; p itself need not be one.
        """
        order = problem.scheme.prefix_order(problem.p)
        reachable = problem.scheme.reachable()
        if order is None:
            order = reachable[np.argsort(-problem.p[reachable], kind="stable")]
            p = problem.p[order]
            return cls(order, np.zeros(1, dtype=np.int64), p, p, priority_law(problem.scheme, order))
        along = minorant(problem, order)
        drafted = np.zeros(problem.vocab, dtype=bool)
        drafted[reachable] = True
        reached = drafted[along.tokens]
        # Counted over the tokens kept; a segment of none of them ends where it starts.
        starts = distinct(np.concatenate(([0], np.cumsum(reached)))[along.starts])
        drafted[along.tokens] = False
        idle = np.flatnonzero(drafted)  # their chance to be picked underflows, and they are not wanted: last
        order = np.concatenate((along.tokens[reached], idle))
        law = np.concatenate((along.law[reached], np.zeros(idle.size)))
        starts = np.concatenate((starts[starts < reached.sum()], reached.sum() + np.arange(idle.size)))
        # Unless idle tokens changed places, the minorant has gone along the same order.
        by_order = priority_law(problem.scheme, order) if idle.size else along.by_order[reached]
        return cls(order, starts, problem.p[order], law, by_order)

    def priorities(self, slope: FloatArray) -> IntArray:
        """Positions in `order`, shape (k,): each block's own by ascending slope, shape (k,)."""
        positions = np.arange(self.order.size)
        for start, end in zip(self.starts, np.append(self.starts[1:], self.order.size), strict=True):
            if end - start > 1:
                positions[start:end] = start + np.argsort(slope[start:end], kind="stable")
        return positions

    def bound(self, atom: Atom) -> float:
        """Upper bound on the acceptance of every rule: the best of P(some draft in A) + p(rest) over prefixes A."""
        hits = np.concatenate(([0.0], np.cumsum(atom.law[atom.ranking])))
        return best_prefix(hits, self.p[atom.ranking])

    def acceptance(self, law: FloatArray) -> float:
        """Acceptance of a pick with that law, shape (k,)."""
        return float(np.minimum(self.p, law).sum())


def priority_law(scheme: DraftScheme, order: IntArray) -> FloatArray:
    """Law of the pick, shape (k,), along an order of the k tokens that can be drafted; others have the highest ids."""
    unreachable = np.arange(order.size, scheme.vocab)
    return scheme.priority_law(np.concatenate((unreachable, order)))[order]


class Corral:
    """Points whose convex hull holds the nearest point of their affine hull to the origin [wolfe1976finding].

    Attributes
    ----------
    atoms : list
        What the points stand for.
    shares : ndarray, shape (len(atoms),)
        Their weights, > 0, summing to 1.
    nearest : ndarray, shape (k,)
        The weighted sum of the points.
    """

    def __init__(self, atom: Atom, point: FloatArray) -> None:
        self.atoms = [atom]
        self.shares = np.ones(1)
        self.nearest = point.copy()
        self._rows = np.zeros(1, dtype=np.int64)  # of the points, in the arrays below; others are free
        self._points = np.zeros((16, point.size))
        self._points[0] = point
        self._gram = np.zeros((16, 16))
        self._gram[0, 0] = point @ point

    def descends(self, point: FloatArray) -> bool:
        """Whether the nearest point comes nearer when this one, shape (k,), joins, by more than rounding."""
        x = self.nearest
        return float(x @ (x - point)) > 4 * EPS * float(np.sqrt((x @ x) * (point @ point)))

    def join(self, atom: Atom, point: FloatArray) -> None:
        """Add a point, shape (k,), and move to the nearest one of the convex hull; points with no part in it leave."""
        if len(self.atoms) == len(self._points):
            self._points = np.pad(self._points, ((0, len(self._points)), (0, 0)))
            self._gram = np.pad(self._gram, (0, len(self._gram)))
        free = np.setdiff1d(np.arange(len(self._points)), self._rows)[0]
        self._points[free] = point
        rows = np.append(self._rows, free)
        self._gram[free, rows] = self._gram[rows, free] = self._points[rows] @ point
        members, self.shares = minor_cycles(self._points, self._gram, rows, np.append(self.shares, 0.0), self.nearest)
        self.atoms.append(atom)
        self.atoms = [self.atoms[member] for member in members]
        self._rows = rows[members]


@jit
def minor_cycles(
    points: FloatArray, gram: FloatArray, rows: IntArray, shares: FloatArray, nearest: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Wolfe's minor cycles: go to the affine hull's nearest point, or as far as shares stay positive, and drop points.

    Parameters
    ----------
    points, gram : ndarray, shapes (r, k), (r, r)
        Points and their scalar products.
    rows : ndarray of int, shape (m,)
        Those in the corral.
    shares : ndarray, shape (m,)
        Their weights.
    nearest : ndarray, shape (k,)
        The weighted sum, replaced by the new one.

    Returns
    -------
    members : ndarray of int, shape (s,)
        Which of the m stay.
    shares : ndarray, shape (s,)
        Their new weights.
    """
    members = np.arange(rows.size)
    while True:
        change = to_affine_minimum(points, gram, rows[members], nearest)
        step, blocking = 1.0, -1
        for i in range(members.size):
            if shares[i] + change[i] <= 0.0:
                limit = shares[i] / max(-change[i], TINY)
                if limit < step or blocking < 0:
                    step, blocking = min(limit, step), i
        shares = np.maximum(shares + step * change, 0.0)
        if blocking >= 0 and members.size > 1:
            shares[blocking] = 0.0
            members, shares = members[shares > 0.0], shares[shares > 0.0]
        shares /= shares.sum()
        nearest[:] = 0.0
        for i in range(members.size):
            nearest += shares[i] * points[rows[members[i]]]
        if blocking < 0 or members.size == 1:
            return members, shares


@jit
def to_affine_minimum(points: FloatArray, gram: FloatArray, rows: IntArray, nearest: FloatArray) -> FloatArray:
    """What to add to the shares to get to the affine hull's nearest point, by Cholesky's method.

    As a correction of the present shares its error is relative to itself, not to them.

    Parameters
    ----------
    points, gram : ndarray, shapes (r, k), (r, r)
        Points and their scalar products.
    rows : ndarray of int, shape (m,)
        Those whose affine hull it is.
    nearest : ndarray, shape (k,)
        The sum of these, weighted by their present shares.

    Returns
    -------
    ndarray, shape (m,)
        Changes of the shares, which sum to 0.
    """
    m = rows.size
    scale, toward, uniform = np.empty(m), np.empty(m), np.empty(m)
    mean = 0.0
    for i in range(m):
        mean += gram[rows[i], rows[i]] / m
    for i in range(m):
        # A point may lie on the origin; the floor keeps what is divided by its length from overflowing.
        scale[i] = 1.0 / math.sqrt(max(gram[rows[i], rows[i]], 1e-290 * mean, TINY))
    # Row c holds column c of Cholesky's factor, so that each of the m**3 / 6 steps is one of a vector.
    factor, row = np.empty((m, m)), np.empty(m)
    for i in range(m):
        toward[i] = -scale[i] * np.dot(points[rows[i]], nearest)
        uniform[i] = scale[i]
        for j in range(i + 1):
            row[j] = (gram[rows[i], rows[j]] + mean) * scale[i] * scale[j]
        row[i] *= 1.0 + RIDGE
        for c in range(i):
            factor[c, i] = row[c] = row[c] / factor[c, c]
            share, column, rest = row[c], factor[c, c + 1 : i], row[c + 1 : i]
            for j in range(rest.size):
                rest[j] -= share * column[j]
            row[i] -= row[c] * row[c]
            toward[i] -= row[c] * toward[c]
            uniform[i] -= row[c] * uniform[c]
        factor[i, i] = math.sqrt(max(row[i], RIDGE))
        toward[i] /= factor[i, i]
        uniform[i] /= factor[i, i]
    for i in range(m - 1, -1, -1):
        for c in range(i + 1, m):
            toward[i] -= factor[i, c] * toward[c]
            uniform[i] -= factor[i, c] * uniform[c]
        toward[i] /= factor[i, i]
        uniform[i] /= factor[i, i]
    return scale * (toward - uniform * (np.sum(scale * toward) / np.sum(scale * uniform)))


class OrderMixture(NamedTuple):
    """Draw one of these, and pick by it."""

    atoms: list[Atom]
    """m ways of picking."""
    shares: FloatArray
    """Shape (m,): the chance that each is drawn."""
    acceptance: float
    """Of a pick by the mixture."""


class Search:
    """Steps towards the law that is the goal, for the scheme of a compact problem (`otspec.Problem.compact`).

    Attributes
    ----------
    best : OrderMixture
        The best so far.
    bound : float
        Certified upper bound on the acceptance of every rule.
    steps : int
        Orders tried.
    """

    def __init__(self, scheme: DraftScheme, goal: Goal, start: Atom | None = None) -> None:
        first = Atom(goal.by_order, np.arange(goal.order.size))
        start = start or first
        self.goal = goal
        self.bound = goal.bound(first)
        self.steps = 0
        self._scheme = scheme
        self._root = np.sqrt(np.maximum(goal.law, FLOOR))
        self._corral = Corral(start, self._point(start))
        self.best = OrderMixture([start], np.ones(1), goal.acceptance(start.law))

    @property
    def gap(self) -> float:
        """Certified distance of the best plan to the optimum."""
        return self.bound - self.best.acceptance

    def run(self, tol: float, max_steps: int, deadline: float) -> None:
        """Step until the gap is that of an optimal plan, a limit is met, or rounding hides all progress."""
        while self.gap > most_gap(self.bound, tol) and self.steps < max_steps and time.perf_counter() < deadline:
            if not self._step():
                break

    def _step(self) -> bool:
        """Add the order that promises most; False if there is none."""
        self.steps += 1
        positions = self.goal.priorities(self._corral.nearest / self._root)
        law = np.empty(positions.size)
        law[positions] = priority_law(self._scheme, self.goal.order[positions])
        atom = Atom(law, positions)
        self.bound = min(self.bound, self.goal.bound(atom))
        point = self._point(atom)
        if not self._corral.descends(point):
            return False
        self._corral.join(atom, point)
        acceptance = self.goal.acceptance(self.goal.law + self._root * self._corral.nearest)
        if acceptance > self.best.acceptance:
            self.best = OrderMixture(list(self._corral.atoms), self._corral.shares, acceptance)
        return any(one is atom for one in self._corral.atoms)

    def _point(self, atom: Atom) -> FloatArray:
        return (atom.law - self.goal.law) / self._root


@dataclass(frozen=True, eq=False)
class OrderMixtureRule:
    """The pick rule: draw an order with its share, take the draft that comes first in it."""

    tokens: IntArray
    """Shape (k,): ascending ids of the tokens that can be drafted."""
    ranks: IntArray
    """Shape (m, k): place of each of them in each order."""
    laws: FloatArray
    """Shape (m, k): law of the pick for each order."""
    shares: FloatArray
    """Shape (m,): law of the order drawn."""
    vocab: int

    @classmethod
    def of(cls, mixture: OrderMixture, order: IntArray, tokens: IntArray, vocab: int) -> OrderMixtureRule:
        """The rule of a mixture over orders; `order`, shape (k,), is that of `Goal`, `tokens` are the original ids."""
        ranks = np.empty((len(mixture.atoms), tokens.size), dtype=np.int64)
        laws = np.empty(ranks.shape)
        for row, atom in enumerate(mixture.atoms):
            ranks[row, order[atom.ranking]] = np.arange(tokens.size)
            laws[row, order] = atom.law
        return cls(tokens, ranks, laws, mixture.shares, vocab)

    @cached_property
    def proposal(self) -> FloatArray:
        """g, shape (V,): the law of the picked token when the drafts come from the scheme."""
        proposal = np.zeros(self.vocab)
        proposal[self.tokens] = self.shares @ self.laws
        return proposal

    def weights(self, drafts: IntArray) -> FloatArray:
        """Probability of picking each draft, shape (n,) to (n,); the first of equal tokens takes it all.

        Raises
        ------
        ProblemError
            If a draft has probability 0.
        """
        positions = np.minimum(np.searchsorted(self.tokens, drafts), self.tokens.size - 1)
        if (wrong := self.tokens[positions] != drafts).any():
            raise ProblemError(f"drafts hold {drafts[wrong.argmax()]}, whose draft probability is 0")
        first = self.ranks[:, positions].argmin(axis=1)
        return sum_by(first, self.shares, drafts.size)

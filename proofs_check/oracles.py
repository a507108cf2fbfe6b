"""Slow answers from first principles, for claims to be compared with: token sets one by one, and linear programs.

A problem comes as arrays here: p, shape (V,), and the tuples of drafts with their law, shapes (m, n) and (m,), or the
laws that independent drafts have.  Token sets are bit masks: set number H holds token i where bit i of H is 1.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from otspec.laws import BoolArray, FloatArray, IntArray

LP_TOL = 1e-9
"""What HiGHS may lose: its tolerance is 1e-10 in units of `UNIT`, and sums of some hundred such errors count."""

Row = dict[Any, float]
"""Coefficients of variables by their names."""

UNIT = 2.0**-10
"""Probabilities are measured in this unit before HiGHS sees them, since its tolerances are absolute."""


def token_sets(vocab: int) -> FloatArray:
    """All token sets, shape (2**V, V): 1 where the set holds the token."""
    return ((np.arange(1 << vocab)[:, None] >> np.arange(vocab)) & 1).astype(np.float64)


def members(drafts: IntArray, vocab: int) -> BoolArray:
    """Whether each token is one of the drafts of each tuple, shape (m, V)."""
    member = np.zeros((len(drafts), vocab), dtype=bool)
    np.put_along_axis(member, drafts, True, axis=1)
    return member


def inside(drafts: IntArray, law: FloatArray, vocab: int) -> FloatArray:
    """Q(H) = P(all drafts in H) of every token set, shape (2**V,)."""
    return within(formed(drafts, law, vocab))


def formed(drafts: IntArray, law: FloatArray, vocab: int) -> FloatArray:
    """P(the drafts form A) of every token set, shape (2**V,)."""
    return np.bincount(np.bitwise_or.reduce(1 << drafts, axis=1), weights=law, minlength=1 << vocab).astype(np.float64)


def within(mass: FloatArray) -> FloatArray:
    """Mass of every set and its subsets together, shape (2**V,): token by token, sets with it gain those without."""
    sums = mass.copy()
    for token in range(mass.size.bit_length() - 1):
        pairs = sums.reshape(-1, 2, 1 << token)
        pairs[:, 1] += pairs[:, 0]
    return sums


def psi(p: FloatArray, drafts: IntArray, law: FloatArray) -> FloatArray:
    """p(H) - P(all drafts in H) of every token set [thomas2025global, eq. (4)]."""
    return psi_of(p, formed(drafts, law, p.size))


def psi_of(p: FloatArray, mass: FloatArray) -> FloatArray:
    """The same, where mass[A] is the probability that the drafts form the set A."""
    return token_sets(p.size) @ p - within(mass)


def psi_independent(p: FloatArray, qs: FloatArray) -> FloatArray:
    """The same for independent drafts, of the laws qs, shape (n, V)."""
    sets = token_sets(p.size)
    return sets @ p - np.prod(sets @ qs.T, axis=1)


def iid_optimum(p: FloatArray, q: FloatArray, n: int) -> float:
    """alpha* of n i.i.d. drafts."""
    return 1.0 + float(psi_independent(p, np.tile(q, (n, 1))).min())


def submodularity(values: FloatArray) -> float:
    """The least of f(A) + f(B) - f(A and B) - f(A or B) over all pairs of token sets."""
    a, b = np.meshgrid(np.arange(values.size), np.arange(values.size))
    return float((values[a] + values[b] - values[a | b] - values[a & b]).min())


def prefixes(order: IntArray) -> IntArray:
    """The token sets that an order starts with, the empty one first, shape (V + 1,)."""
    return np.concatenate(([0], np.cumsum(1 << order)))


def transport(p: FloatArray, member: BoolArray, mass: FloatArray, order: IntArray | None = None) -> FloatArray:
    """A maximum flow S from tokens to tuples, shape (m, V); which one depends on the order of the tokens.

    Tuple by tuple along shortest augmenting paths.  Each empties a token, a tuple, or what one has of the other, to
    exactly 0.
    """
    room, left = p.tolist(), mass.tolist()
    reach = [[token for token in (range(p.size) if order is None else order.tolist()) if row[token]] for row in member]
    served: list[dict[int, float]] = [{} for _ in reach]
    for first in range(len(reach)):
        while left[first] > 0 and (path := _augmenting(first, room, reach, served)):
            tuples, tokens = path[::2], path[1::2]
            returned = list(zip(tuples[1:], tokens[:-1], strict=True))  # what a tuple gives back, the one before takes
            amount = min(left[first], room[tokens[-1]], *(served[loser][token] for loser, token in returned))
            left[first] -= amount
            room[tokens[-1]] -= amount
            for taker, token in zip(tuples, tokens, strict=True):
                served[taker][token] = served[taker].get(token, 0.0) + amount
            for loser, token in returned:
                served[loser][token] -= amount
    flow = np.zeros(member.shape)
    for row, amounts in zip(flow, served, strict=True):
        row[list(amounts)] = list(amounts.values())
    return flow


def _augmenting(first: int, unused: list[float], reach: list[list[int]], served: list[dict[int, float]]) -> list[int]:
    """Tuple, token, tuple, ..., token: a shortest way to a token with unused, or nothing."""
    came_from: dict[int, tuple[int, int | None]] = {}  # the tuple that wants a token, and the token that it gave up
    asking: deque[tuple[int, int | None]] = deque([(first, None)])
    queued = {first}
    while asking:
        taker, gave = asking.popleft()
        for token in reach[taker]:
            if token in came_from:
                continue
            came_from[token] = taker, gave
            if unused[token] > 0:
                path = [token, taker]
                while gave is not None:
                    taker, before = came_from[gave]
                    path += [gave, taker]
                    gave = before
                return path[::-1]
            for other, amounts in enumerate(served):
                if other not in queued and amounts.get(token, 0.0) > 0:
                    queued.add(other)
                    asking.append((other, token))
    return []


@dataclass(frozen=True)
class Program:
    """A linear program over x >= 0: maximise gain @ x, with some sums at most, and others equal to, given numbers."""

    gain: FloatArray
    """Shape (cells,)."""
    at_most: tuple[FloatArray, FloatArray] | None = None
    """Coefficients of the sums, shape (sums, cells), and the numbers, shape (sums,)."""
    equal: tuple[FloatArray, FloatArray] | None = None
    """The same, shapes (sums, cells) and (sums,), of sums that equal their numbers."""

    def solve(self) -> tuple[float, FloatArray]:
        """The optimal value and a solution; NaN where HiGHS finds none, which contradicts whatever rests on it."""
        upper, total = self.at_most or (None, None), self.equal or (None, None)
        for presolve in True, False:  # with it, totals that differ by rounding can count as infeasible
            answer = linprog(
                -self.gain,
                A_ub=upper[0],
                b_ub=None if upper[1] is None else upper[1] / UNIT,
                A_eq=total[0],
                b_eq=None if total[1] is None else total[1] / UNIT,
                method="highs",
                options={
                    "presolve": presolve,
                    "primal_feasibility_tolerance": 1e-10,
                    "dual_feasibility_tolerance": 1e-10,
                },
            )
            if answer.x is not None:
                solution: FloatArray = np.asarray(answer.x) * UNIT
                return float(self.gain @ solution), solution
        return float("nan"), np.full(self.gain.size, np.nan)


class Sums:
    """A linear program in variables x >= 0 that have names: sums at most, or equal to, given numbers."""

    def __init__(self) -> None:
        self._at_most: list[tuple[Row, float]] = []
        self._equal: list[tuple[Row, float]] = []

    def at_most(self, row: Row, total: float) -> None:
        """Sum of the variables, each times its coefficient, <= total."""
        self._at_most.append((row, total))

    def equal(self, row: Row, total: float) -> None:
        """Sum of the variables, each times its coefficient, = total."""
        self._equal.append((row, total))

    def most(self, gain: Row) -> float:
        """The largest value of the sum `gain`, NaN where HiGHS finds none."""
        named = dict.fromkeys(name for row, _ in (*self._at_most, *self._equal) for name in row)
        place = {name: at for at, name in enumerate(named)}

        def dense(row: Row) -> FloatArray:
            found = np.zeros(len(place))
            found[[place[name] for name in row]] = list(row.values())
            return found

        def limits(rows: list[tuple[Row, float]]) -> tuple[FloatArray, FloatArray] | None:
            return (np.array([dense(row) for row, _ in rows]), np.array([total for _, total in rows])) if rows else None

        return Program(dense(gain), limits(self._at_most), limits(self._equal)).solve()[0]


def sums(member: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Coefficients that sum the cells (tuple, token) where `member` is true, by token and by tuple."""
    tuples, tokens = np.nonzero(member)
    cells = np.arange(tuples.size)
    by_token, by_tuple = np.zeros((member.shape[1], cells.size)), np.zeros((len(member), cells.size))
    by_token[tokens, cells] = by_tuple[tuples, cells] = 1.0
    return by_token, by_tuple


def relaxed_program(p: FloatArray, member: BoolArray, mass: FloatArray) -> Program:
    """The relaxed OTLP [thomas2025global, eq. (2)] on the cells where `member` is true."""
    by_token, by_tuple = sums(member)
    sums_at_most = np.concatenate((by_token, by_tuple)), np.concatenate((p, mass))
    return Program(np.ones(by_token.shape[1]), at_most=sums_at_most)


def full_program(p: FloatArray, member: BoolArray, mass: FloatArray) -> Program:
    """The OTLP [thomas2025global, eq. (1)]: a variable for every tuple and token."""
    by_token, by_tuple = sums(np.ones_like(member))
    totals = np.concatenate((by_token, by_tuple)), np.concatenate((p, mass))
    return Program(member.astype(np.float64).ravel(), equal=totals)

"""Sweeps over a block of tokens: what a token is worth to the rule, given how likely the others are to stay in it.

The *value* of token j is P(j is drafted, and every other draft stays), where a token of the block stays with a
probability of its own, tokens of later blocks stay, and tokens of earlier blocks do not.  By the race of
`otspec.schemes.arrivals` it is an integral of polynomials over the tokens before j times those over the tokens after j,
so one pass in each direction gives all values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from otspec.jit import jit, jit_of_sums
from otspec.laws import BoolArray, FloatArray
from otspec.schemes.arrivals import UNIT, Nodes, admit, admit_heavy, clock, odds

CHUNK = 32
"""Tokens whose polynomials are held at once: those of all would not fit into the cache."""


class Tokens(NamedTuple):
    """A block of k tokens in order of priority, as a tuple of its own, since large ones are slow to hand over."""

    rates: FloatArray
    """Shape (k,): q in the unit of the nodes."""
    heavy: BoolArray
    """Shape (k,)."""
    arrived: FloatArray
    """Shape (k, M): odds, or 1 - exp(-q s) of heavy tokens."""
    waiting: FloatArray
    """Shape (k, M): exp(-q s) of heavy tokens; the other rows are not used."""
    weights: FloatArray
    """Shape (M,): of the nodes, times the chance that no heavy token of an earlier block arrives."""


class Race(NamedTuple):
    """A block and what surrounds it."""

    tokens: Tokens
    below: FloatArray
    """Shape (2n, M): polynomials of the tokens of later blocks."""
    thetas: FloatArray
    """Nodes on [0, 1] of a rule for 1/m = integral of theta**(m - 1), m <= n."""
    theta_weights: FloatArray
    corners: FloatArray
    """Working memory, shape (k / CHUNK + 1, 2n, M): polynomials kept on the way through the block."""
    chunk: FloatArray
    """Working memory, shape (CHUNK + 1, 2n, M): polynomials within a chunk."""


@jit
def start_race(
    q: FloatArray, heavy: BoolArray, start: int, end: int, nodes: Nodes, thetas: FloatArray, theta_weights: FloatArray
) -> Race:
    """The race of the block of tokens start to end, q and heavy being those of all tokens in order of priority."""
    k, count, rows = end - start, nodes.times.size, 2 * (int(heavy.sum()) + 1)
    arrived, waiting = np.empty((k, count)), np.empty((k, count))
    for j in range(k):
        if heavy[start + j]:
            clock(q[start + j] / UNIT, nodes, arrived[j], waiting[j])
        else:
            odds(q[start + j] / UNIT, nodes, arrived[j])
    weights = nodes.weights.copy()
    for i in range(start):
        if heavy[i]:
            weights *= np.exp(-(q[i] / UNIT) * nodes.times)
    below, spare = np.zeros((rows, count)), np.zeros((rows, count))
    below[0] = nodes.start
    x, y = np.empty(count), np.empty(count)
    for i in range(end, q.size):
        if heavy[i]:
            clock(q[i] / UNIT, nodes, x, y)
            admit_heavy(q[i] / UNIT, x, y, 1.0, below, spare)
        else:
            odds(q[i] / UNIT, nodes, x)
            admit(q[i] / UNIT, x, 1.0, below, spare)
        below, spare = spare, below
    corners, chunk = np.zeros(((k - 1) // CHUNK + 2, rows, count)), np.zeros((CHUNK + 1, rows, count))
    tokens = Tokens(q[start:end] / UNIT, heavy[start:end], arrived, waiting, weights)
    return Race(tokens, below, thetas, theta_weights, corners, chunk)


@jit_of_sums
def stay(tokens: Tokens, j: int, chance: float, here: FloatArray, there: FloatArray) -> None:
    """Add token j, which stays with the given chance, to the polynomials `here`, and write them to `there`."""
    if tokens.heavy[j]:
        admit_heavy(tokens.rates[j], tokens.arrived[j], tokens.waiting[j], chance, here, there)
    else:
        admit(tokens.rates[j], tokens.arrived[j], chance, here, there)


@jit_of_sums
def paired(rate: float, odds: FloatArray, weights: FloatArray, before: FloatArray, after: FloatArray) -> float:
    """P(a token of these odds is drafted, and n - 1 of the others): a of those before it, n - 1 - a of those after."""
    n = before.shape[0] // 2
    total = 0.0
    for a in range(n):
        for i in range(odds.size):
            own = rate * after[n - 1 - a, i] + odds[i] * after[2 * n - 1 - a, i]
            total += weights[i] * (before[a, i] * own + odds[i] * before[n + a, i] * after[n - 1 - a, i])
    return total


@jit
def value(tokens: Tokens, j: int, before: FloatArray, after: FloatArray) -> float:
    """The value of token j, from the polynomials of the tokens before and after it."""
    rate, odds, weights = tokens.rates[j], tokens.arrived[j], tokens.weights
    if tokens.heavy[j]:  # exp(-q s) stands at what it adds as the last to arrive
        late = paired(rate, np.zeros_like(odds), weights * tokens.waiting[j], before, after)
        return late + paired(0.0, odds, weights, before, after)
    return paired(rate, odds, weights, before, after)


@jit
def release(race: Race, owed: FloatArray, worth: FloatArray, released: FloatArray, gained: FloatArray) -> None:
    """Release tokens in order of priority, each as far as it needs to get what it is owed.

    Before its turn a token stays.  Released with probability x, token j gains x times its value, whatever x, and keeps
    (1 - x) times its worth for those that stay to the end: so x solves a linear equation.

    Parameters
    ----------
    owed, worth : ndarray, shape (k,)
        The law to attain, and what staying to the end is thought to be worth.
    released, gained : ndarray, shape (k,)
        Filled in: the probabilities x, and x times the value.
    """
    k, tokens, corners, chunk = owed.size, race.tokens, race.corners, race.chunk
    here, there = race.below.copy(), np.zeros_like(race.below)
    for j in range(k - 1, -1, -1):
        if (j + 1) % CHUNK == 0 or j == k - 1:
            corners[j // CHUNK] = here
        stay(tokens, j, 1.0, here, there)
        here, there = there, here
    here[:] = 0.0
    here[0] = 1.0
    for start in range(0, k, CHUNK):
        size = min(CHUNK, k - start)
        chunk[size - 1] = corners[start // CHUNK]
        for c in range(size - 1, 0, -1):
            stay(tokens, start + c, 1.0, chunk[c], chunk[c - 1])
        for c in range(size):
            j = start + c
            full = value(tokens, j, here, chunk[c])
            spread = full - worth[j]
            x = (owed[j] - worth[j]) / spread if spread != 0.0 else 0.0
            released[j] = min(max(x, 0.0), 1.0)
            gained[j] = released[j] * full
            stay(tokens, j, 1.0 - released[j], here, there)
            here, there = there, here


@jit
def staying_worth(race: Race, released: FloatArray, worth: FloatArray) -> None:
    """Fill in what staying to the end is worth: P(drafted, all drafts of the block stay, and the draw falls on it)."""
    k, tokens, corners, chunk = released.size, race.tokens, race.corners, race.chunk
    here, there = np.zeros_like(race.below), np.zeros_like(race.below)
    worth[:] = 0.0
    for t in range(race.thetas.size):
        theta = race.thetas[t]
        here[:] = 0.0
        here[0] = 1.0
        for j in range(k):
            if j % CHUNK == 0:
                corners[j // CHUNK] = here
            stay(tokens, j, theta * (1.0 - released[j]), here, there)
            here, there = there, here
        here[:] = race.below
        for start in range((k - 1) // CHUNK * CHUNK, -1, -CHUNK):
            size = min(CHUNK, k - start)
            chunk[0] = corners[start // CHUNK]
            for c in range(size - 1):
                stay(tokens, start + c, theta * (1.0 - released[start + c]), chunk[c], chunk[c + 1])
            for c in range(size - 1, -1, -1):
                j = start + c
                worth[j] += race.theta_weights[t] * value(tokens, j, chunk[c], here)
                stay(tokens, j, theta * (1.0 - released[j]), here, there)
                here, there = there, here

"""What each token of a block is worth to the rule, given how likely the others are to stay in it.

The *value* of token j is P(j is drafted, and every other draft stays), where a token of the block stays with a
probability of its own, tokens of later blocks stay, and tokens of earlier blocks do not.  By the clocks of
`otspec.kernels.arrivals` it is an integral of polynomials over the tokens before j times those over the tokens after j,
so one pass in each direction gives all values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from otspec.jit import jit, jit_of_sums
from otspec.kernels.arrivals import (
    STRIDE,
    UNIT,
    Nodes,
    add_heavy_token,
    add_token,
    arrival_chances,
    arrival_odds,
    empty_polynomials,
)
from otspec.laws import BoolArray, FloatArray

CHUNK = 32
"""Tokens whose polynomials are held at once: those of all would not fit into the cache."""


class Tokens(NamedTuple):
    """A block of k tokens in order of priority, as a tuple of its own, since large ones are slow to hand over.

    M is the number of nodes of the time axis, and S that number rounded up to a multiple of `STRIDE`.
    """

    rates: FloatArray
    """Shape (k,): q in the unit of the nodes."""
    heavy: BoolArray
    """Shape (k,): whether each is one of the n - 1 likeliest tokens."""
    arrived: FloatArray
    """Shape (k, M): odds, or 1 - exp(-q s) of heavy tokens."""
    waiting: FloatArray
    """Shape (k, M): exp(-q s) of heavy tokens; the other rows are not used."""
    arriving: FloatArray
    """Shape (k, M): q exp(-q s) of heavy tokens, likewise."""
    nothing: FloatArray
    """Shape (2 n S,): polynomials of no token, times the weights of the nodes and the chance that no heavy token of an
    earlier block arrives."""


class Arrivals(NamedTuple):
    """A block and what surrounds it."""

    tokens: Tokens
    below: FloatArray
    """Shape (2 n S,): polynomials of the tokens of later blocks, as `empty_polynomials` lays them out."""
    n: int
    """Number of drafts."""
    thetas: FloatArray
    """Shape (r,): nodes on [0, 1] of a rule for 1/m = integral of theta**(m - 1), m <= n."""
    theta_weights: FloatArray
    """Shape (r,): its weights."""
    checkpoints: FloatArray
    """Working memory, shape (chunks, 2 n S): polynomials kept on the way through the block, a row for each chunk."""
    chunk: FloatArray
    """Working memory, shape (CHUNK, 2 n S): polynomials within a chunk."""


@jit
def start_arrivals(
    q: FloatArray, heavy: BoolArray, start: int, end: int, nodes: Nodes, thetas: FloatArray, theta_weights: FloatArray
) -> Arrivals:
    """The arrivals in one block.

    Parameters
    ----------
    q : ndarray, shape (V,)
        Draft probabilities of all tokens, in order of priority.
    heavy : ndarray of bool, shape (V,)
        The n - 1 likeliest tokens.
    start, end : int
        The block holds the tokens from `start` up to `end` of that order.
    nodes : Nodes
        Of the draft law.
    thetas, theta_weights : ndarray, shape (r,)
        As in `Arrivals`.
    """
    k, count, n = end - start, nodes.times.size, int(heavy.sum()) + 1
    arrived, waiting, arriving = np.empty((k, count)), np.empty((k, count)), np.empty((k, count))
    for j in range(k):
        if heavy[start + j]:
            arrival_chances(q[start + j] / UNIT, nodes, arrived[j], waiting[j], arriving[j])
        else:
            arrival_odds(q[start + j] / UNIT, nodes, arrived[j])
    weights = nodes.weights.copy()
    for i in range(start):
        if heavy[i]:
            weights *= np.exp(-(q[i] / UNIT) * nodes.times)
    below = empty_polynomials(nodes.start, n)
    x, y, z = np.empty(count), np.empty(count), np.empty(count)
    for i in range(end, q.size):
        if heavy[i]:
            arrival_chances(q[i] / UNIT, nodes, x, y, z)
            add_heavy_token(x, y, z, 1.0, n, below)
        else:
            arrival_odds(q[i] / UNIT, nodes, x)
            add_token(q[i] / UNIT, x, 1.0, n, below)
    checkpoints, chunk = np.empty(((k - 1) // CHUNK + 1, below.size)), np.empty((CHUNK, below.size))
    tokens = Tokens(q[start:end] / UNIT, heavy[start:end], arrived, waiting, arriving, empty_polynomials(weights, n))
    return Arrivals(tokens, below, n, thetas, theta_weights, checkpoints, chunk)


@jit_of_sums
def stay(tokens: Tokens, j: int, chance: float, n: int, state: FloatArray) -> None:
    """Add token j, which stays with some chance, to polynomials.

    Parameters
    ----------
    tokens : Tokens
        The block.
    j : int
        A token of it.
    chance : float
        That it stays if drafted.
    n : int
        Number of drafts.
    state : ndarray, shape (2 n S,)
        The polynomials, as `empty_polynomials` lays them out; updated.
    """
    if tokens.heavy[j]:
        add_heavy_token(tokens.arrived[j], tokens.waiting[j], tokens.arriving[j], chance, n, state)
    else:
        add_token(tokens.rates[j], tokens.arrived[j], chance, n, state)


@jit_of_sums
def paired(rate: float, odds: FloatArray, n: int, before: FloatArray, after: FloatArray) -> float:
    """P(a token is drafted, and n - 1 of the others): a of those before it, n - 1 - a of those after.

    Parameters
    ----------
    rate : float
        q of the token over `UNIT`.
    odds : ndarray, shape (M,)
        Its odds.
    n : int
        Number of drafts.
    before, after : ndarray, shape (2 n S,)
        Polynomials of the tokens before it and after it, as `empty_polynomials` lays them out.
    """
    total = 0.0
    for b in range(before.size // (2 * n * STRIDE)):
        x = odds[b * STRIDE : (b + 1) * STRIDE]
        for a in range(n):
            u = before[2 * (b * n + a) * STRIDE : 2 * (b * n + a + 1) * STRIDE]
            v = after[2 * (b * n + n - 1 - a) * STRIDE : 2 * (b * n + n - a) * STRIDE]
            for i in range(x.size):
                total += u[i] * (rate * v[i] + x[i] * v[STRIDE + i]) + x[i] * u[STRIDE + i] * v[i]
    return total


@jit_of_sums
def paired_heavy(arrived: FloatArray, arriving: FloatArray, n: int, before: FloatArray, after: FloatArray) -> float:
    """`paired` for a heavy token: exp(-q s) stands at what it adds as the last to arrive.

    Parameters
    ----------
    arrived, arriving : ndarray, shape (M,)
        What `arrival_chances` fills in.
    n : int
        Number of drafts.
    before, after : ndarray, shape (2 n S,)
        As in `paired`.
    """
    total = 0.0
    for b in range(before.size // (2 * n * STRIDE)):
        x, late = arrived[b * STRIDE : (b + 1) * STRIDE], arriving[b * STRIDE : (b + 1) * STRIDE]
        for a in range(n):
            u = before[2 * (b * n + a) * STRIDE : 2 * (b * n + a + 1) * STRIDE]
            v = after[2 * (b * n + n - 1 - a) * STRIDE : 2 * (b * n + n - a) * STRIDE]
            for i in range(x.size):
                total += u[i] * (late[i] * v[i] + x[i] * v[STRIDE + i]) + x[i] * u[STRIDE + i] * v[i]
    return total


@jit_of_sums
def value(tokens: Tokens, j: int, n: int, before: FloatArray, after: FloatArray) -> float:
    """The value of token j: P(it is drafted, and every other draft stays).

    Parameters
    ----------
    tokens : Tokens
        The block.
    j : int
        A token of it.
    n : int
        Number of drafts.
    before, after : ndarray, shape (2 n S,)
        As in `paired`.
    """
    rate, odds = tokens.rates[j], tokens.arrived[j]
    if tokens.heavy[j]:
        return paired_heavy(odds, tokens.arriving[j], n, before, after)
    return paired(rate, odds, n, before, after)


@jit_of_sums
def value_and_stay(tokens: Tokens, j: int, chance: float, n: int, before: FloatArray, after: FloatArray) -> float:
    """The value of token j, which is then added to the polynomials after it: both take the same products.

    Parameters
    ----------
    tokens : Tokens
        The block.
    j : int
        A token of it.
    chance : float
        That it stays if drafted.
    n : int
        Number of drafts.
    before, after : ndarray, shape (2 n S,)
        As in `paired`; those after it are updated.
    """
    if tokens.heavy[j]:
        total = value(tokens, j, n, before, after)
        stay(tokens, j, chance, n, after)
        return total
    rate, odds, total = tokens.rates[j], tokens.arrived[j], 0.0
    for b in range(before.size // (2 * n * STRIDE)):
        x = odds[b * STRIDE : (b + 1) * STRIDE]
        u = before[2 * b * n * STRIDE :]
        rows = after[2 * (b * n + n - 1) * STRIDE :]
        for i in range(x.size):
            total += u[i] * (rate * rows[i] + x[i] * rows[STRIDE + i])
        for m in range(n - 1, 0, -1):
            u = before[2 * (b * n + n - m) * STRIDE :]
            rows = after[2 * (b * n + m - 1) * STRIDE : 2 * (b * n + m + 1) * STRIDE]
            for i in range(x.size):
                late, early = x[i] * rows[STRIDE + i] + rate * rows[i], x[i] * rows[i]
                total += u[i] * late + u[STRIDE + i] * early
                rows[3 * STRIDE + i] += chance * late
                rows[2 * STRIDE + i] += chance * early
    return total


@jit_of_sums
def copy(source: FloatArray, target: FloatArray) -> None:
    """Copy element by element, which spares the check for overlaps.

    Parameters
    ----------
    source, target : ndarray, shape (size,)
        What to copy, and where.
    """
    for i in range(source.size):
        target[i] = source[i]


@jit
def release(arrivals: Arrivals, owed: FloatArray, worth: FloatArray, released: FloatArray, gained: FloatArray) -> None:
    """Release tokens in order of priority, each as far as it needs to get what it is owed.

    Before its turn a token stays.  Released with probability x, token j gains x times its value, whatever x, and keeps
    (1 - x) times its worth for those that stay to the end: so x solves a linear equation.

    Parameters
    ----------
    arrivals : Arrivals
        In a block of k tokens; its working memory is overwritten.
    owed, worth : ndarray, shape (k,)
        The law to attain, and what staying to the end is thought to be worth, probabilities.
    released, gained : ndarray, shape (k,)
        Filled in: the probabilities x, and x times the value.
    """
    k, tokens, n, checkpoints, chunk = owed.size, arrivals.tokens, arrivals.n, arrivals.checkpoints, arrivals.chunk
    after = arrivals.below.copy()
    for j in range(k - 1, -1, -1):
        if (j + 1) % CHUNK == 0 or j == k - 1:
            checkpoints[j // CHUNK] = after
        stay(tokens, j, 1.0, n, after)
    before = tokens.nothing.copy()
    for start in range(0, k, CHUNK):
        size = min(CHUNK, k - start)
        chunk[size - 1] = checkpoints[start // CHUNK]
        for c in range(size - 1, 0, -1):
            copy(chunk[c], chunk[c - 1])
            stay(tokens, start + c, 1.0, n, chunk[c - 1])
        for c in range(size):
            j = start + c
            full = value(tokens, j, n, before, chunk[c])
            spread = full - worth[j]
            x = (owed[j] - worth[j]) / spread if spread != 0.0 else 0.0
            released[j] = min(max(x, 0.0), 1.0)
            gained[j] = released[j] * full
            stay(tokens, j, 1.0 - released[j], n, before)


@jit
def staying_worth(arrivals: Arrivals, released: FloatArray, worth: FloatArray) -> None:
    """Fill in what staying to the end is worth: P(drafted, all drafts of the block stay, and the draw falls on it).

    Parameters
    ----------
    arrivals : Arrivals
        In a block of k tokens; its working memory is overwritten.
    released : ndarray, shape (k,)
        Release probabilities.
    worth : ndarray, shape (k,)
        Filled.
    """
    k, tokens, n, checkpoints, chunk = released.size, arrivals.tokens, arrivals.n, arrivals.checkpoints, arrivals.chunk
    worth[:] = 0.0
    for t in range(arrivals.thetas.size):
        theta = arrivals.thetas[t]
        before = tokens.nothing.copy()
        for j in range(k):
            if j % CHUNK == 0:
                checkpoints[j // CHUNK] = before
            stay(tokens, j, theta * (1.0 - released[j]), n, before)
        after = arrivals.below.copy()
        for start in range((k - 1) // CHUNK * CHUNK, -1, -CHUNK):
            size = min(CHUNK, k - start)
            chunk[0] = checkpoints[start // CHUNK]
            for c in range(size - 1):
                copy(chunk[c], chunk[c + 1])
                stay(tokens, start + c, theta * (1.0 - released[start + c]), n, chunk[c + 1])
            for c in range(size - 1, -1, -1):
                j = start + c
                chance = theta * (1.0 - released[j])
                worth[j] += arrivals.theta_weights[t] * value_and_stay(tokens, j, chance, n, chunk[c], after)

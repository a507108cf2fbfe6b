"""Drawing without replacement by exponential clocks: the quadrature that every law of such drafts rests on.

Token k arrives at an exponential time of rate q_k; the first n tokens to arrive are n draws without replacement, in
order.  Let s be the time of the n-th arrival.  The probability that the drafts form a set S is the integral over s of

    sum over l in S of q_l exp(-q_l s) * prod over S without l of (1 - exp(-q_k s)) * prod outside S of exp(-q_k s)

so sums over sets are coefficients of a polynomial whose factors are exp(-q_k s) + z (1 - exp(-q_k s)).  With the *odds*
x_k = exp(q_k s) - 1 and one common factor exp(-s) that is

    exp(-s) * sum over l in S of q_l * prod over S without l of x_k,

which costs a multiplication and an addition per coefficient.  Odds of likely tokens may overflow while the clocks of
all others wait; so the n - 1 likeliest tokens, called *heavy*, keep the first form.

The nodes s do not depend on the set: a token is added at all of them at once.  On the logarithm of s the integrands are
analytic and vanish at both ends, where the trapezoidal rule converges exponentially [trefethen2014exponentially].  All
terms are positive, so every token keeps its relative accuracy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from otspec.errors import ProblemError
from otspec.jit import jit, jit_of_sums
from otspec.laws import BoolArray, FloatArray

FINE = 1e-17
"""Mass that may be cut off at either end of the time axis: negligible in float64."""

UNIT = 2.0**-80
"""Unit of time: so small that 1 / q is a float for every q > 0, the smallest included."""

LARGEST_EXPONENT = 1300.0
"""exp(-s) is split in two halves, which exceed the range of float64 from about 1400 on."""

STRIDE = 72
"""Nodes whose polynomials lie together; see `empty_polynomials`."""


class Nodes(NamedTuple):
    """Trapezoidal rule for the time of the n-th arrival, on its logarithm."""

    times: FloatArray
    """Shape (M,): a geometric sequence, in units of `UNIT`; rates are q / UNIT."""
    weights: FloatArray
    """Shape (M,): with half of the common factor, exp(-s / 2) for the tokens that are not heavy."""
    start: FloatArray
    """Shape (M,): the other half, the polynomial of no token."""
    per_octave: int
    """Number of nodes after which the time has doubled."""

    @classmethod
    def of(cls, q: FloatArray, n: int, per_octave: int | None = None, tail: float = FINE) -> Nodes:
        """Nodes for draws without replacement.

        The logarithm of the time has a spread of about 1/sqrt(n), which sets the step.  By default the laws that come
        out are exact up to about 1e-14.

        Parameters
        ----------
        q : ndarray, shape (V,)
            Draft probabilities, at least n of them above 0.
        n : int
            Number of drafts.
        per_octave : int, optional
            Nodes after which the time has doubled.
        tail : float
            Mass that may be cut off at either end of the time axis.

        Raises
        ------
        ProblemError
            If n is so large that the tails of the law of s leave the range of float64: above 178 of 100 000 tokens.
        """
        if per_octave is None:
            per_octave = 1 + math.ceil(0.94 * math.sqrt(n))
        light = np.partition(q, q.size - n)[: q.size - n + 1].sum()
        sets = math.lgamma(q.size + 1) - math.lgamma(n) - math.lgamma(q.size - n + 2)
        if sets > LARGEST_EXPONENT:
            raise ProblemError(f"n is {n} of {q.size} tokens, too many for float64; draw fewer, or truncate q to top-k")
        # P(n arrivals by s) <= s**n / n!, and P(fewer than n by s) <= binomial(V, n - 1) * exp(-light * s).
        first = math.exp((math.log(tail) + math.lgamma(n + 1)) / n) * UNIT
        last = (sets - math.log(tail)) * UNIT / light
        count = 1 + math.ceil(per_octave * (math.log2(last) - math.log2(first)))
        count = max(per_octave, -(-count // 8) * 8)  # whole vectors; the surplus goes before the first
        octave, within = np.divmod(np.arange(1 - count, 1), per_octave)
        times = np.ldexp(last * 2.0 ** (within / per_octave), octave)  # doubles exactly, as `arrival_odds` expects
        half = np.exp(-0.5 * (light / UNIT) * times)
        return cls(times, math.log(2) / per_octave * times * half, half, per_octave)


@jit
def arrival_odds(rate: float, nodes: Nodes, odds: FloatArray) -> None:
    """Fill in exp(rate s) - 1: one octave of exponentials, the rest by doubling, which loses next to nothing.

    Parameters
    ----------
    rate : float
        q of the token over `UNIT`.
    nodes : Nodes
        M of them.
    odds : ndarray, shape (M,)
        Filled.
    """
    step, first = nodes.per_octave, 0
    while first < nodes.times.size and rate * nodes.times[first] < 1e-290:  # hardly more than 0, or less than a float
        odds[first] = rate * nodes.times[first]
        first += 1
    for m in range(first, min(first + step, nodes.times.size)):
        odds[m] = math.expm1(rate * nodes.times[m])
    for m in range(first + step, nodes.times.size):
        odds[m] = odds[m - step] * (2.0 + odds[m - step])


@jit
def arrival_chances(rate: float, nodes: Nodes, arrived: FloatArray, waiting: FloatArray, arriving: FloatArray) -> None:
    """Fill in 1 - exp(-rate s), exp(-rate s) and its density rate exp(-rate s).

    The density is a number of its own: a rate times what others bring to a node may overflow before exp(-rate s) = 0
    undoes it, and sums are added up in any order.

    Parameters
    ----------
    rate : float
        q of the token over `UNIT`.
    nodes : Nodes
        M of them.
    arrived, waiting, arriving : ndarray, shape (M,)
        Filled: the chance that the token's clock has rung by the time of the node, that it has not, and its density
        there.
    """
    for m in range(nodes.times.size):
        arrived[m] = -math.expm1(-rate * nodes.times[m])
        waiting[m] = math.exp(-rate * nodes.times[m]) if rate * nodes.times[m] < 200.0 else 0.0  # no subnormal numbers
        arriving[m] = rate * waiting[m]


@jit
def empty_polynomials(values: FloatArray, n: int) -> FloatArray:
    """Polynomials of no token, which are a constant at each node.

    Of a set of tokens they are, for m < n, E_m: m tokens have arrived by time s, and D_m: one of m tokens arrives at s,
    the others before.  They lie in one flat array, E_0, D_0, E_1, ... for the first `STRIDE` nodes, then for the next:
    distances known when compiled, which vector instructions take to be safe.

    Parameters
    ----------
    values : ndarray, shape (M,)
        The constant at each node.
    n : int
        Number of drafts.

    Returns
    -------
    ndarray, shape (2 n S,)
        S being M rounded up to a multiple of `STRIDE`.
    """
    blocks = (values.size - 1) // STRIDE + 1
    state = np.zeros(blocks * 2 * n * STRIDE)
    for b in range(blocks):
        part = values[b * STRIDE : (b + 1) * STRIDE]
        state[b * 2 * n * STRIDE : b * 2 * n * STRIDE + part.size] = part
    return state


@jit_of_sums
def add_token(rate: float, odds: FloatArray, stays: float, n: int, state: FloatArray) -> None:
    """Add a token to the polynomials of a set of tokens.

    Parameters
    ----------
    rate : float
        q of the token over `UNIT`.
    odds : ndarray, shape (M,)
        Its odds, of `arrival_odds`.
    stays : float
        The chance that it counts if drafted.
    n : int
        Number of drafts.
    state : ndarray, shape (2 n S,)
        The polynomials, as `empty_polynomials` lays them out; updated.
    """
    rate *= stays
    for b in range(state.size // (2 * n * STRIDE)):
        x = odds[b * STRIDE : (b + 1) * STRIDE]
        for m in range(n - 1, 0, -1):
            rows = state[2 * (b * n + m - 1) * STRIDE : 2 * (b * n + m + 1) * STRIDE]
            for i in range(x.size):
                y = stays * x[i]
                rows[3 * STRIDE + i] += y * rows[STRIDE + i] + rate * rows[i]
                rows[2 * STRIDE + i] += y * rows[i]


@jit_of_sums
def add_heavy_token(
    arrived: FloatArray, waiting: FloatArray, arriving: FloatArray, stays: float, n: int, state: FloatArray
) -> None:
    """`add_token` for a heavy token.

    Parameters
    ----------
    arrived, waiting, arriving : ndarray, shape (M,)
        What `arrival_chances` fills in.
    stays : float
        The chance that it counts if drafted.
    n : int
        Number of drafts.
    state : ndarray, shape (2 n S,)
        The polynomials, as `empty_polynomials` lays them out; updated.
    """
    for b in range(state.size // (2 * n * STRIDE)):
        x, z = arrived[b * STRIDE : (b + 1) * STRIDE], waiting[b * STRIDE : (b + 1) * STRIDE]
        late = arriving[b * STRIDE : (b + 1) * STRIDE]
        for m in range(n - 1, 0, -1):
            rows = state[2 * (b * n + m - 1) * STRIDE : 2 * (b * n + m + 1) * STRIDE]
            for i in range(x.size):
                y = stays * x[i]
                joined = stays * late[i] * rows[i]
                rows[3 * STRIDE + i] = z[i] * rows[3 * STRIDE + i] + joined + y * rows[STRIDE + i]
                rows[2 * STRIDE + i] = z[i] * rows[2 * STRIDE + i] + y * rows[i]
        rows = state[2 * b * n * STRIDE :]
        for i in range(x.size):
            rows[i] *= z[i]


@jit_of_sums
def complete_set(rate: float, odds: FloatArray, weights: FloatArray, n: int, state: FloatArray) -> float:
    """P(a token is drafted, and n - 1 of the others): the sum over the nodes.

    Parameters
    ----------
    rate : float
        q of the token over `UNIT`.
    odds : ndarray, shape (M,)
        Its odds, of `arrival_odds`.
    weights : ndarray, shape (M,)
        Of the nodes.
    n : int
        Number of drafts.
    state : ndarray, shape (2 n S,)
        The polynomials of the others, as `empty_polynomials` lays them out.
    """
    total = 0.0
    for b in range(state.size // (2 * n * STRIDE)):
        x, w = odds[b * STRIDE : (b + 1) * STRIDE], weights[b * STRIDE : (b + 1) * STRIDE]
        rows = state[2 * (b * n + n - 1) * STRIDE :]
        for i in range(x.size):
            total += w[i] * (rate * rows[i] + x[i] * rows[STRIDE + i])
    return total


@jit
def hit_increments(q: FloatArray, heavy: BoolArray, n: int, nodes: Nodes) -> FloatArray:
    """P(a token is drafted and no token before it is), for tokens in order of priority.

    Parameters
    ----------
    q : ndarray, shape (V,)
        Draft probabilities, in that order.
    heavy : ndarray of bool, shape (V,)
        The n - 1 likeliest tokens.
    n : int
        Number of drafts.
    nodes : Nodes
        Of the draft law.

    Returns
    -------
    ndarray, shape (V,)
        What each token adds to the hit function, a probability.
    """
    k, count = q.size, nodes.times.size
    law = np.zeros(k)
    x, waiting, arriving = np.empty(count), np.empty(count), np.empty(count)
    state = empty_polynomials(nodes.start, n)
    weights = np.empty(count)
    absent_before(q, heavy, k, nodes, weights)
    for i in range(k - 1, -1, -1):
        if q[i] == 0.0:
            continue
        rate = q[i] / UNIT
        if heavy[i]:
            absent_before(q, heavy, i, nodes, weights)
            arrival_chances(rate, nodes, x, waiting, arriving)
            # exp(-q s) stands at what it adds as the last to arrive.
            late = complete_set(rate, np.zeros_like(x), weights * waiting, n, state)
            law[i] = late + complete_set(0.0, x, weights, n, state)
            add_heavy_token(x, waiting, arriving, 1.0, n, state)
        else:
            arrival_odds(rate, nodes, x)
            law[i] = complete_set(rate, x, weights, n, state)
            add_token(rate, x, 1.0, n, state)
    return law


@jit
def absent_before(q: FloatArray, heavy: BoolArray, i: int, nodes: Nodes, weights: FloatArray) -> None:
    """Fill in the weights of the nodes times the chance that no heavy token before the i-th arrives.

    Parameters
    ----------
    q : ndarray, shape (V,)
        Draft probabilities, in order of priority.
    heavy : ndarray of bool, shape (V,)
        The n - 1 likeliest tokens.
    i : int
        A place in that order.
    nodes : Nodes
        M of them.
    weights : ndarray, shape (M,)
        Filled.
    """
    weights[:] = nodes.weights
    for j in range(i):
        if heavy[j]:
            weights *= np.exp(-(q[j] / UNIT) * nodes.times)

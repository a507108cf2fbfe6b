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
"""Nodes whose polynomials lie together; see `no_tokens`."""


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
        """Nodes for n draws from q, shape (V,), of which at least n entries are positive.

        The logarithm of the time has a spread of about 1/sqrt(n), which sets the step.  By default the laws that come
        out are exact up to about 1e-14.

        Raises
        ------
        ProblemError
            If n is so large that the tails of the law of s leave the range of float64: some 200 of 100 000 tokens.
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
        times = np.ldexp(last * 2.0 ** (within / per_octave), octave)  # doubles exactly, as `odds` expects
        half = np.exp(-0.5 * (light / UNIT) * times)
        return cls(times, math.log(2) / per_octave * times * half, half, per_octave)


@jit
def odds(rate: float, nodes: Nodes, out: FloatArray) -> None:
    """Fill in exp(rate s) - 1: one octave of exponentials, the rest by doubling, which loses next to nothing."""
    step, first = nodes.per_octave, 0
    while first < nodes.times.size and rate * nodes.times[first] < 1e-290:  # hardly more than 0, or less than a float
        out[first] = rate * nodes.times[first]
        first += 1
    for m in range(first, min(first + step, nodes.times.size)):
        out[m] = math.expm1(rate * nodes.times[m])
    for m in range(first + step, nodes.times.size):
        out[m] = out[m - step] * (2.0 + out[m - step])


@jit
def clock(rate: float, nodes: Nodes, arrived: FloatArray, waiting: FloatArray, arriving: FloatArray) -> None:
    """Fill in 1 - exp(-rate s), exp(-rate s) and its density rate exp(-rate s).

    The density is a number of its own: a rate times what others bring to a node may overflow before exp(-rate s) = 0
    undoes it, and sums are added up in any order.
    """
    for m in range(nodes.times.size):
        arrived[m] = -math.expm1(-rate * nodes.times[m])
        waiting[m] = math.exp(-rate * nodes.times[m]) if rate * nodes.times[m] < 200.0 else 0.0  # no subnormal numbers
        arriving[m] = rate * waiting[m]


@jit
def no_tokens(values: FloatArray, n: int) -> FloatArray:
    """Polynomials of no token, which are the constant that is given at each node.

    Of a set of tokens they are, for m < n, E_m: m tokens have arrived by time s, and D_m: one of m tokens arrives at s,
    the others before.  They lie in one flat array, E_0, D_0, E_1, ... for the first `STRIDE` nodes, then for the next:
    distances known when compiled, which vector instructions take to be safe.
    """
    blocks = (values.size - 1) // STRIDE + 1
    state = np.zeros(blocks * 2 * n * STRIDE)
    for b in range(blocks):
        part = values[b * STRIDE : (b + 1) * STRIDE]
        state[b * 2 * n * STRIDE : b * 2 * n * STRIDE + part.size] = part
    return state


@jit_of_sums
def admit(rate: float, odds: FloatArray, stays: float, n: int, state: FloatArray) -> None:
    """Add a token to the polynomials of a set of tokens.

    Parameters
    ----------
    rate : float
        q of the token, in the unit of the nodes.
    odds : ndarray, shape (M,)
        Its odds.
    stays : float
        The chance that it counts if drafted.
    n : int
        Number of drafts.
    state : ndarray
        The polynomials, as `no_tokens` lays them out.
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
def admit_heavy(
    arrived: FloatArray, waiting: FloatArray, arriving: FloatArray, stays: float, n: int, state: FloatArray
) -> None:
    """`admit` for a heavy token, by what `clock` fills in."""
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
def complete(rate: float, odds: FloatArray, weights: FloatArray, n: int, state: FloatArray) -> float:
    """P(a token of these odds is drafted, and n - 1 of the others): the sum over the nodes, of these weights."""
    total = 0.0
    for b in range(state.size // (2 * n * STRIDE)):
        x, w = odds[b * STRIDE : (b + 1) * STRIDE], weights[b * STRIDE : (b + 1) * STRIDE]
        rows = state[2 * (b * n + n - 1) * STRIDE :]
        for i in range(x.size):
            total += w[i] * (rate * rows[i] + x[i] * rows[STRIDE + i])
    return total


@jit
def chain(q: FloatArray, heavy: BoolArray, n: int, nodes: Nodes) -> FloatArray:
    """P(token i is drafted and no token before it is), shape (V,), for tokens in order of priority."""
    k, count = q.size, nodes.times.size
    law = np.zeros(k)
    x, waiting, arriving = np.empty(count), np.empty(count), np.empty(count)
    state = no_tokens(nodes.start, n)
    weights = np.empty(count)
    absent_before(q, heavy, k, nodes, weights)
    for i in range(k - 1, -1, -1):
        if q[i] == 0.0:
            continue
        rate = q[i] / UNIT
        if heavy[i]:
            absent_before(q, heavy, i, nodes, weights)
            clock(rate, nodes, x, waiting, arriving)
            # exp(-q s) stands at what it adds as the last to arrive.
            late = complete(rate, np.zeros_like(x), weights * waiting, n, state)
            law[i] = late + complete(0.0, x, weights, n, state)
            admit_heavy(x, waiting, arriving, 1.0, n, state)
        else:
            odds(rate, nodes, x)
            law[i] = complete(rate, x, weights, n, state)
            admit(rate, x, 1.0, n, state)
    return law


@jit
def absent_before(q: FloatArray, heavy: BoolArray, i: int, nodes: Nodes, weights: FloatArray) -> None:
    """Fill in the weights of the nodes times the chance that no heavy token before the i-th arrives."""
    weights[:] = nodes.weights
    for j in range(i):
        if heavy[j]:
            weights *= np.exp(-(q[j] / UNIT) * nodes.times)

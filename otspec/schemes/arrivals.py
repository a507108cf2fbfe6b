"""Drawing without replacement as a race of exponential clocks: the quadrature that every law of such drafts rests on.

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
"""Mass that may be cut off at either end of the time axis: nothing, in float64."""

UNIT = 2.0**-80
"""Unit of time: so small that 1 / q is a float for every q > 0, the smallest included."""

LARGEST_EXPONENT = 1300.0
"""exp(-s) is split in two halves, which exceed the range of float64 from about 1400 on."""


class Nodes(NamedTuple):
    """Trapezoidal rule for the time of the n-th arrival, on its logarithm."""

    times: FloatArray
    """Shape (M,): a geometric sequence, in units of `UNIT`; rates are q / UNIT."""
    weights: FloatArray
    """Shape (M,): with half of the common factor, exp(-s / 2) for the tokens that are not heavy."""
    start: FloatArray
    """Shape (M,): the other half, the polynomial of no token."""
    per_octave: int
    """After so many nodes the time has doubled."""

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
def clock(rate: float, nodes: Nodes, arrived: FloatArray, waiting: FloatArray) -> None:
    """Fill in 1 - exp(-rate s) and exp(-rate s)."""
    for m in range(nodes.times.size):
        arrived[m] = -math.expm1(-rate * nodes.times[m])
        waiting[m] = math.exp(-rate * nodes.times[m]) if rate * nodes.times[m] < 200.0 else 0.0  # no subnormal numbers


@jit_of_sums
def admit(rate: float, odds: FloatArray, stays: float, before: FloatArray, after: FloatArray) -> None:
    """Add a token to the polynomials of a set of tokens.

    Parameters
    ----------
    rate : float
        q of the token, in the unit of the nodes.
    odds : ndarray, shape (M,)
        Its odds.
    stays : float
        The chance that it counts if drafted.
    before, after : ndarray, shape (2n, M)
        Rows m < n: m tokens have arrived by time s.  Rows n + m: one of m tokens arrives at s, the others before.  In
        separate arrays, for the sake of vector instructions.
    """
    n = before.shape[0] // 2
    rate *= stays
    for i in range(odds.size):
        after[0, i] = before[0, i]
    for m in range(1, n):
        for i in range(odds.size):
            x = stays * odds[i]
            after[n + m, i] = before[n + m, i] + x * before[n + m - 1, i] + rate * before[m - 1, i]
            after[m, i] = before[m, i] + x * before[m - 1, i]


@jit_of_sums
def admit_heavy(
    rate: float, arrived: FloatArray, waiting: FloatArray, stays: float, before: FloatArray, after: FloatArray
) -> None:
    """`admit` for a heavy token."""
    n = before.shape[0] // 2
    rate *= stays
    for i in range(arrived.size):
        after[0, i] = waiting[i] * before[0, i]
    for m in range(1, n):
        for i in range(arrived.size):
            x = stays * arrived[i]
            joined = before[n + m, i] + rate * before[m - 1, i]
            after[n + m, i] = waiting[i] * joined + x * before[n + m - 1, i]
            after[m, i] = waiting[i] * before[m, i] + x * before[m - 1, i]


@jit_of_sums
def chain(q: FloatArray, heavy: BoolArray, n: int, nodes: Nodes) -> FloatArray:
    """P(token i is drafted and no token before it is), shape (V,), for tokens in order of priority."""
    k, count = q.size, nodes.times.size
    law = np.zeros(k)
    x, waiting = np.empty(count), np.empty(count)
    state, spare = np.zeros((2 * n, count)), np.zeros((2 * n, count))
    state[0] = nodes.start
    weights = np.empty(count)
    absent_before(q, heavy, k, nodes, weights)
    for i in range(k - 1, -1, -1):
        if q[i] == 0.0:
            continue
        rate = q[i] / UNIT
        total = 0.0
        if heavy[i]:
            absent_before(q, heavy, i, nodes, weights)
            clock(rate, nodes, x, waiting)
            for m in range(count):
                total += weights[m] * (rate * waiting[m] * state[n - 1, m] + x[m] * state[2 * n - 1, m])
            admit_heavy(rate, x, waiting, 1.0, state, spare)
        else:
            odds(rate, nodes, x)
            for m in range(count):
                total += weights[m] * (rate * state[n - 1, m] + x[m] * state[2 * n - 1, m])
            admit(rate, x, 1.0, state, spare)
        state, spare = spare, state
        law[i] = total
    return law


@jit
def absent_before(q: FloatArray, heavy: BoolArray, i: int, nodes: Nodes, weights: FloatArray) -> None:
    """Fill in the weights of the nodes times the chance that no heavy token before the i-th arrives."""
    weights[:] = nodes.weights
    for j in range(i):
        if heavy[j]:
            weights *= np.exp(-(q[j] / UNIT) * nodes.times)

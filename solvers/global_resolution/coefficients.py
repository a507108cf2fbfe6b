"""The coefficients of a system: the probability of each set that drafts form in it, for every draft law that is taken.

The sums of [thomas2025global, eq. (12), (15)] run over tuples of drafts, and see a tuple by its set of tokens in the
system alone.  Of a set that is U, the tuples hold U, all of it, and beside it nothing but tokens of the *rest*, such as
H* for the outer system.  All sums here have positive terms.
"""

from __future__ import annotations

import numpy as np

from otspec.jit import jit
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
from otspec.laws import BoolArray, FloatArray, IntArray
from otspec.schemes import IID, Independent, WithoutReplacement
from otspec.schemes.draft_sets import PAD
from otspec.schemes.iid import iid_sets

Taken = IID | WithoutReplacement | Independent
"""The draft laws of [thomas2025global, Table 5] that its method can be extended to; of independent ones up to two."""


def sets_of(scheme: Taken, tokens: IntArray, rest: IntArray, count: int) -> tuple[IntArray, FloatArray]:
    """Sets of some tokens, and the probability that the drafts form each together with any of some others.

    Parameters
    ----------
    scheme : IID, WithoutReplacement or Independent
        Independent drafts two at most.
    tokens : ndarray of int, shape (t,)
        Tokens that can be drafted.
    rest : ndarray of int, shape (r,)
        The others that a tuple may hold.
    count : int
        How many sets there are: the sum over 1 <= s <= n of binomial(t, s).

    Returns
    -------
    index : ndarray of int, shape (count, n)
        Ascending positions in tokens, filled up with `PAD`, in lexicographic order.
    mass : ndarray, shape (count,)
        Probabilities; 0 for sets that cannot be.
    """
    if isinstance(scheme, IID) or scheme.n == 1:
        q = scheme.first_draft()
        return iid_sets(q[tokens], scheme.n, count, float(q[rest].sum()))
    index, _ = iid_sets(np.ones(tokens.size), scheme.n, count)
    if isinstance(scheme, Independent):
        return index, _independent_masses(scheme.qs[:, tokens], scheme.qs[:, rest].sum(axis=1), index)
    reached = scheme.reachable()
    place = np.zeros(scheme.vocab, dtype=np.int64)
    place[reached] = np.arange(reached.size)
    heavy = scheme.heavy[reached]
    return index, _distinct_masses(scheme.q[reached], heavy, place[tokens], place[rest], index, scheme.nodes)


def _independent_masses(qs: FloatArray, rest: FloatArray, index: IntArray) -> FloatArray:
    """Of two independent drafts.

    Parameters
    ----------
    qs : ndarray, shape (2, t)
        Their laws on the tokens.
    rest : ndarray, shape (2,)
        Their masses on the rest.
    index : ndarray of int, shape (m, 2)
        Sets of tokens.
    """
    first, second = index.T
    alone = second == PAD
    one, other = qs[:, first], qs[:, np.where(alone, first, second)]
    twice = one[0] * one[1] + one[0] * rest[1] + rest[0] * one[1]
    return np.where(alone, twice, one[0] * other[1] + other[0] * one[1])


@jit
def _distinct_masses(
    q: FloatArray, heavy: BoolArray, tokens: IntArray, rest: IntArray, index: IntArray, nodes: Nodes
) -> FloatArray:
    """Of drafts without replacement: a sum over the times of the last of them, see `otspec.kernels.arrivals`.

    Parameters
    ----------
    q : ndarray, shape (k,)
        Draft probabilities, all above 0.
    heavy : ndarray of bool, shape (k,)
        The n - 1 likeliest.
    tokens, rest : ndarray of int, shape (t,), (r,)
        Positions in q.
    index : ndarray of int, shape (m, n)
        Sets of positions in tokens.
    nodes : Nodes
        Of the draft law.
    """
    n, count = index.shape[1], nodes.times.size
    weights, absent = nodes.weights.copy(), heavy.copy()
    arrived, waiting, arriving = np.empty(count), np.empty(count), np.empty(count)
    state = empty_polynomials(nodes.start, n)
    for k in rest:
        absent[k] = False
        if heavy[k]:
            arrival_chances(q[k] / UNIT, nodes, arrived, waiting, arriving)
            add_heavy_token(arrived, waiting, arriving, 1.0, n, state)
        else:
            arrival_odds(q[k] / UNIT, nodes, arrived)
            add_token(q[k] / UNIT, arrived, 1.0, n, state)
    before, last, still = np.empty((tokens.size, count)), np.empty((tokens.size, count)), np.ones((tokens.size, count))
    for i in range(tokens.size):
        k = tokens[i]
        absent[k] = False
        if heavy[k]:
            arrival_chances(q[k] / UNIT, nodes, before[i], still[i], last[i])
        else:
            arrival_odds(q[k] / UNIT, nodes, before[i])
            last[i] = q[k] / UNIT
    for k in np.flatnonzero(absent):
        weights *= np.exp(-(q[k] / UNIT) * nodes.times)
    waits = np.flatnonzero(heavy[tokens])  # the common factor has that of all others
    mass = np.empty(index.shape[0])
    all_before, one_last = np.empty(count), np.empty(count)
    for s in range(index.shape[0]):
        size = 0
        while size < n and index[s, size] != PAD:
            size += 1
        for m in range(count):
            at = (m // STRIDE * n + n - size) * 2 * STRIDE + m % STRIDE
            all_before[m], one_last[m] = state[at], state[at + STRIDE]
        for column in range(size):
            i = index[s, column]
            for m in range(count):
                one_last[m] = one_last[m] * before[i, m] + all_before[m] * last[i, m]
                all_before[m] *= before[i, m]
        for place in waits:
            if not (index[s] == place).any():
                one_last *= still[place]
        mass[s] = (one_last * weights).sum()
    return mass

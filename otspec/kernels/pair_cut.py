"""The over-drafted tokens of two drafts, by a minimum cut over the tokens alone.

With two drafts a token set H costs P(some draft outside H) + p(H), where the first term is one less the probability
that both drafts lie in H: a sum over pairs of tokens.  That makes the search for the best H a quadratic problem in one
bit per token, and a minimum cut among the tokens, with no node for a draft set [thomas2025global, Appendix D].

The flow has a meaning of its own.  Let each pair of tokens divide its probability between the two; the token's load is
what it carries in all, the law g of some pick.  To push flow along the edge from i to j is to hand part of the pair's
probability from i to j.  A maximum flow from the tokens that carry more than p to those that carry less leaves a g
whose acceptance, the sum of min(p, g), is the largest.  The tokens that carry more than p in the end, and those to
which these could still hand something on in one step or several, are H*: all carry at least p, and none of them
anything of a pair with a token outside.

The steps are those of `otspec.kernels.max_flow`: levels, a blocking flow along them, augmentations.  They are written
anew because the network is dense: its edges are the entries of a matrix, each beside its reverse, and the search for
levels goes over nodes that are not reached yet in place of edges.  To copy the matrix into the lists of edges that the
other module works on takes as long as the whole cut does here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from otspec.jit import jit, jit_inlined
from otspec.kernels.max_flow import DEAD_END, UNREACHED
from otspec.laws import BoolArray, FloatArray, IntArray


class Loads(NamedTuple):
    """How the pairs are divided, and what the tokens carry too much or too little."""

    pairs: FloatArray
    """Shape (k, k): entry (i, j) is what token i carries of the pair {i, j}, and could hand to j."""
    surplus: FloatArray
    """Shape (k,): what each token carries beyond p."""
    missing: FloatArray
    """Shape (k,): what each token lacks up to p."""


class Search(NamedTuple):
    """How far a phase has come."""

    level: IntArray
    """Shape (k,): distance from the overloaded tokens, `UNREACHED` or `DEAD_END`."""
    following: IntArray
    """Shape (k,): the token to which each may hand something on next; k where there is none left."""
    queue: IntArray
    """Shape (k,): the tokens reached, in the order in which they were."""
    unreached: IntArray
    """Shape (k,): those that are not, ascending, at the front."""
    path: IntArray
    """Shape (k,): the tokens of a path; each hands on to the one that is `following` it."""


@jit
def pair_cut(p: FloatArray, pairs: FloatArray) -> tuple[FloatArray, BoolArray]:
    """The law of an optimal pick among two drafts, and the tokens that it overloads.

    Parameters
    ----------
    p : ndarray, shape (k,)
        Target probabilities.
    pairs : ndarray, shape (k, k)
        Symmetric: P(the drafts form {i, j}), on the diagonal P(both are i).  Overwritten: in the end entry (i, j) is
        what token i carries of the pair.

    Returns
    -------
    load : ndarray, shape (k,)
        g, what each token carries.
    over_drafted : ndarray of bool, shape (k,)
        H*: the smallest set of the least cost, up to the rounding of the loads.
    """
    k = p.size
    load = _greedy_start(p, pairs)
    loads = Loads(pairs, np.maximum(load - p, 0.0), np.maximum(p - load, 0.0))
    search = Search(
        np.empty(k, dtype=np.int64),
        np.empty(k, dtype=np.int64),
        np.empty(k, dtype=np.int64),
        np.empty(k, dtype=np.int64),
        np.empty(k, dtype=np.int64),
    )
    while True:
        nearest = _levels(loads, search)
        if nearest == UNREACHED:
            return pairs.sum(axis=1), search.level >= 0
        _blocking_flow(nearest, loads, search)


@jit
def _levels(loads: Loads, search: Search) -> int:
    """Fill in the distances from the overloaded tokens, breadth first, as far as the nearest that miss something.

    Parameters
    ----------
    loads, search : Loads, Search
        Of k tokens each; the levels are filled in.

    Returns
    -------
    int
        The level of these; `UNREACHED` if there are none, and the loads are the best.
    """
    pairs, surplus, missing = loads
    level, _, queue, unreached, _ = search
    tail, waiting = 0, 0  # ends of the queue, and of the list of those that are not reached
    for i in range(surplus.size):
        if surplus[i] > 0:
            level[i] = 0
            queue[tail] = i
            tail += 1
        else:
            level[i] = UNREACHED
            unreached[waiting] = i
            waiting += 1
    nearest, head = UNREACHED, 0
    while head < tail and waiting > 0:
        i = queue[head]
        head += 1
        if nearest >= 0 and level[i] >= nearest:
            break
        left = 0
        for at in range(waiting):
            j = unreached[at]
            if pairs[i, j] > 0:
                level[j] = level[i] + 1
                queue[tail] = j
                tail += 1
                if missing[j] > 0:
                    nearest = level[j]
            else:
                unreached[left] = j
                left += 1
        waiting = left
    return nearest


@jit
def _blocking_flow(nearest: int, loads: Loads, search: Search) -> None:
    """Hand on along rising levels, up to the nearest, until no token has a way on: depth first, without recursion.

    A token that turns out to be a dead end is marked as one and left for good.

    Parameters
    ----------
    nearest : int
        What `_levels` returned.
    loads, search : Loads, Search
        Of k tokens each; updated.
    """
    pairs, surplus, missing = loads
    level, following, _, _, path = search
    following[:] = 0
    for root in range(surplus.size):
        length, i = 0, root
        while surplus[root] > 0 and level[root] == 0:
            if level[i] == nearest and missing[i] > 0:
                _augment(path[:length], root, i, loads, following)
                length, i = 0, root
                continue
            j = following[i] if level[i] < nearest else following.size
            while j < following.size and not (level[j] == level[i] + 1 and pairs[i, j] > 0):
                j += 1
            if j < following.size:
                following[i] = j
                path[length] = i
                length += 1
                i = j
            else:
                level[i] = DEAD_END
                if length == 0:
                    break
                length -= 1
                i = path[length]


@jit_inlined
def _augment(path: IntArray, root: int, last: int, loads: Loads, following: IntArray) -> None:
    """Hand on along a path as much as each of its tokens can.

    Parameters
    ----------
    path : ndarray of int, shape (length,)
        Its tokens but the last.
    root, last : int
        The overloaded token that it starts at, and the one at its end that misses something.
    loads : Loads
        Of k tokens; updated.
    following : ndarray of int, shape (k,)
        For each token of the path the one after it.
    """
    pairs, surplus, missing = loads
    amount = min(surplus[root], missing[last])
    for i in path:
        amount = min(amount, pairs[i, following[i]])
    surplus[root] -= amount
    missing[last] -= amount
    for i in path:
        pairs[i, following[i]] -= amount
        pairs[following[i], i] += amount


@jit
def _greedy_start(p: FloatArray, pairs: FloatArray) -> FloatArray:
    """Give each pair to the token that still misses more, and split it where both would be full.

    Parameters
    ----------
    p : ndarray, shape (k,)
        Target probabilities.
    pairs : ndarray, shape (k, k)
        As in `pair_cut`; overwritten.

    Returns
    -------
    ndarray, shape (k,)
        What each token carries.
    """
    k = p.size
    load = np.empty(k)
    for i in range(k):
        load[i] = pairs[i, i]
    for i in range(k):
        for j in range(i):
            mass = pairs[i, j]
            to_i = min(mass, max(p[i] - load[i], 0.0))
            to_j = mass - to_i
            pairs[i, j] = to_i
            pairs[j, i] = to_j
            load[i] += to_i
            load[j] += to_j
    return load

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
"""

from __future__ import annotations

import numpy as np

from otspec.jit import jit
from otspec.laws import BoolArray, FloatArray


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
    missing = np.maximum(p - load, 0.0)
    surplus = np.maximum(load - p, 0.0)
    level = np.empty(k, dtype=np.int64)
    following = np.empty(k, dtype=np.int64)
    queue = np.empty(k, dtype=np.int64)
    fresh = np.empty(k, dtype=np.int64)
    path = np.empty(k, dtype=np.int64)
    while True:
        # Breadth first: distances from the overloaded tokens, as far as the nearest one with room.
        tail = 0
        unseen = 0
        for i in range(k):
            following[i] = 0
            if surplus[i] > 0:
                level[i] = 0
                queue[tail] = i
                tail += 1
            else:
                level[i] = -1
                fresh[unseen] = i
                unseen += 1
        nearest = -1
        head = 0
        while head < tail and unseen > 0:
            i = queue[head]
            head += 1
            if nearest >= 0 and level[i] >= nearest:
                break
            left = 0
            for at in range(unseen):
                j = fresh[at]
                if pairs[i, j] > 0:
                    level[j] = level[i] + 1
                    queue[tail] = j
                    tail += 1
                    if missing[j] > 0:
                        nearest = level[j]
                else:
                    fresh[left] = j
                    left += 1
            unseen = left
        if nearest < 0:
            return pairs.sum(axis=1), level >= 0

        # Depth first: a blocking flow along increasing levels.  A token left without a way on gets level -2.
        for root in range(k):
            while surplus[root] > 0 and level[root] == 0:
                length = 0
                i = root
                while True:
                    if level[i] == nearest:
                        if missing[i] > 0:
                            break
                    else:
                        while following[i] < k:
                            j = following[i]
                            if level[j] == level[i] + 1 and pairs[i, j] > 0:
                                break
                            following[i] += 1
                        if following[i] < k:
                            path[length] = i
                            length += 1
                            i = following[i]
                            continue
                    level[i] = -2
                    if length == 0:
                        break
                    length -= 1
                    i = path[length]
                if level[i] == -2:
                    break  # the root itself has no way on in this phase
                amount = min(surplus[root], missing[i])
                for step in range(length):
                    tail_of = path[step]
                    amount = min(amount, pairs[tail_of, following[tail_of]])
                surplus[root] -= amount
                missing[i] -= amount
                for step in range(length):
                    tail_of = path[step]
                    j = following[tail_of]
                    pairs[tail_of, j] -= amount
                    pairs[j, tail_of] += amount


@jit
def _greedy_start(p: FloatArray, pairs: FloatArray) -> FloatArray:
    """Give each pair to the token that still misses more, and split it where both would be full."""
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

"""What a choice computes: little, but at every step, where a dozen calls of numpy or torch take longer than it."""

from __future__ import annotations

import numpy as np

from otspec.jit import jit, jit_of_sums
from otspec.laws import FloatArray, IntArray


@jit_of_sums
def _alike(p: FloatArray, q: FloatArray) -> float:
    total = 0.0
    for x in range(p.size):
        total += min(p[x], q[x])
    return total


@jit
def in_common(target: FloatArray, draft: FloatArray, places: IntArray) -> FloatArray:
    """What laws have in common, sum min(p, q), of pairs of rows of both, shape (pairs, 2)."""
    found = np.empty(len(places))
    for at in range(len(places)):
        found[at] = _alike(target[places[at, 0]], draft[places[at, 1]])
    return found


@jit_of_sums
def _squares(p: FloatArray) -> float:
    total = 0.0
    for x in range(p.size):
        total += p[x] * p[x]
    return total


@jit
def signs_of(laws: FloatArray) -> FloatArray:
    """Collision entropy in nats and largest probability of laws, shape (B, V) to (B, 2)."""
    found = np.empty((len(laws), 2))
    for text in range(len(laws)):
        found[text, 0] = -np.log(_squares(laws[text]))
        found[text, 1] = laws[text].max()
    return found


@jit
def reach_of(
    signs: FloatArray, mean: FloatArray, scale: FloatArray, most_off: float, weights: FloatArray, beginnings: IntArray
) -> FloatArray:
    """In how many texts each branching is expected to be accepted, shape (branchings,).

    Parameters
    ----------
    signs : ndarray, shape (B, S)
    mean, scale : ndarray, shape (S,)
    most_off : float
        Standard deviations that a sign is off its mean at most.
    weights : ndarray, shape (branchings, terms)
        Of 1, the signs, and their products.
    beginnings : ndarray of int, shape (branchings, levels)
        As `otspec.decode.pacing.menu.beginnings` gives them.
    """
    texts, count = signs.shape
    found, foretold, known = np.zeros(len(weights)), np.ones(len(weights) + 1), np.ones(weights.shape[1])
    for text in range(texts):
        for sign in range(count):
            off = (signs[text, sign] - mean[sign]) / scale[sign]
            known[1 + sign] = min(max(off, -most_off), most_off)
        at = 1 + count
        for one in range(count):
            for other in range(one, count):
                known[at] = known[1 + one] * known[1 + other]
                at += 1
        for branching in range(len(weights)):
            chance = 0.0
            for term in range(known.size):
                chance += weights[branching, term] * known[term]
            foretold[branching] = min(max(chance, 0.0), 1.0)
        for branching in range(len(weights)):
            least = 1.0  # no more than what it begins with
            for before in beginnings[branching]:
                least = min(least, foretold[before])
            found[branching] += least
    return found


@jit
def best_of(texts: int, members: FloatArray, reach: FloatArray, seconds: FloatArray) -> int:
    """The choice of the most tokens a second, the first of several.

    Parameters
    ----------
    texts : int
        Tokens that every choice gives.
    members : ndarray, shape (choices, branchings)
        As `otspec.decode.pacing.menu.members` gives them.
    reach : ndarray, shape (branchings,)
    seconds : ndarray, shape (choices,)
    """
    best, most = 0, -1.0
    for choice in range(len(seconds)):
        tokens = float(texts)
        for branching in range(len(reach)):
            tokens += members[choice, branching] * reach[branching]
        if tokens / seconds[choice] > most:
            best, most = choice, tokens / seconds[choice]
    return best

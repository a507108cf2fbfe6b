"""Trees of the likeliest prefixes of random models: how many of their tokens are accepted, exactly.

The laws after all prefixes are independent, each drawn from a few `laws` with `weights`.
"""

from __future__ import annotations

import heapq
from itertools import product

import numpy as np
from scipy.special import entr

from otspec.laws import FloatArray

DEEPEST = 25
"""Trees are cut at this depth: trees all the same."""


def moments(laws: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """The means of a law's entropy, and of its second moment of -log p."""
    logs = np.log(np.where(laws > 0, laws, 1.0))
    return float(weights @ entr(laws).sum(axis=1)), float(weights @ (laws * logs**2).sum(axis=1))


def best(law: FloatArray, nodes: int) -> float:
    """Accepted tokens of the likeliest prefixes, so many, where one law follows every prefix."""
    fringe = [-float(chance) for chance in law]
    heapq.heapify(fringe)
    total = 0.0
    for _ in range(nodes):
        chance = heapq.heappop(fringe)
        total -= chance
        for each in law:
            heapq.heappush(fringe, chance * float(each))
    return total


def profiles(laws: FloatArray, weights: FloatArray, nodes: int) -> dict[tuple[float, ...], float]:
    """The law of the likeliest `nodes` prefixes' probabilities, in falling order."""
    deeper = profiles(laws, weights, nodes - 1) if nodes > 1 else {(): 1.0}
    found: dict[tuple[float, ...], float] = {}
    for row, weight in zip(laws, weights, strict=True):
        for subtrees in product(deeper.items(), repeat=row.size):
            chances = [top * each for top, (below, _) in zip(row, subtrees, strict=True) for each in (1.0, *below)]
            profile = tuple(sorted(chances, reverse=True)[:nodes])
            found[profile] = found.get(profile, 0.0) + weight * float(np.prod([chance for _, chance in subtrees]))
    return found


def cut(laws: FloatArray, weights: FloatArray, depth: float) -> tuple[float, float]:
    """Accepted tokens, and nodes, expected of the tree of all prefixes of probability exp(-depth) at least."""
    chances: FloatArray = np.ones(1)
    counts: FloatArray = np.ones(1)  # of one level: different probabilities, and how many prefixes have each
    accepted = nodes = 0.0
    for _ in range(DEEPEST):
        chances = np.outer(chances, laws).ravel()
        counts = np.outer(counts, weights.repeat(laws.shape[1])).ravel()
        kept = chances >= np.exp(-depth) * (1 - 1e-12)
        if not kept.any():
            break
        _, first, same = np.unique(np.log(chances[kept]).round(9), return_index=True, return_inverse=True)
        chances, counts = chances[kept][first], np.bincount(same, counts[kept]).astype(np.float64)
        accepted, nodes = accepted + float(chances @ counts), nodes + float(counts.sum())
    return accepted, nodes

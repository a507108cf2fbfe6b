"""At every node what can be drafted apart from the rest, of which one token is drawn, on a CPU.

Of laws, or of the scores whose softmax they are: these are then in no memory but a row's, which stays in a cache.
"""

from __future__ import annotations

import numpy as np

from otspec.jit import jit_inlined, jit_of_sums, jit_vectorised
from otspec.kernels.exponentials import exp64, greatest
from otspec.kernels.few_rows import Bits, Gains, widened
from otspec.laws import FloatArray, IntArray

BLOCK = 256
"""Tokens whose total is one number when a token is sought."""


@jit_vectorised
def split_laws(
    laws: FloatArray, nodes: IntArray, columns: IntArray, uniform: FloatArray, drafted: FloatArray, rest: FloatArray,
    drawn: IntArray,
) -> None:  # fmt: skip
    """Split laws into probabilities of tokens that can be drafted and a rest, and draw a token of every rest.

    Parameters
    ----------
    laws : shape (N, V)
        Used up: what can be drafted at a node becomes 0.
    nodes : shape (R,)
        Those that something is drafted after; one of several draft laws occurs as often.
    columns : shape (k,)
        What can be drafted there.
    uniform : shape (N,)
        In [0, 1).
    drafted : shape (R, k)
        Written: probabilities of the columns.
    rest : shape (N,)
        Written: probability of all other tokens together.
    drawn : shape (N,)
        Written: one of these, in proportion to its probability; some token where none has any.
    """
    totals = np.empty((laws.shape[1] + BLOCK - 1) // BLOCK)
    for node in range(len(laws)):
        _take_out(laws[node], node, nodes, columns, drafted, 1.0)
        rest[node], drawn[node] = _draw(laws[node], uniform[node], totals)


@jit_vectorised
def split_scores(
    scores: Gains | Bits, nodes: IntArray, columns: IntArray, uniform: FloatArray, drafted: FloatArray,
    rest: FloatArray, drawn: IntArray,
) -> None:  # fmt: skip
    """`split_laws` of the softmax of scores, shape (N, V), which stay as they are; NaN where that is none."""
    vocab = scores.shape[1]
    numbers, weights, totals = np.empty(vocab, np.float32), np.empty(vocab), np.empty((vocab + BLOCK - 1) // BLOCK)
    for node in range(len(scores)):
        if scores.itemsize == numbers.itemsize:
            numbers[:] = scores[node]
        else:
            for token in range(vocab):
                numbers[token] = widened(np.uint16(scores[node, token]))
        total = _weigh(numbers, weights)
        _take_out(weights, node, nodes, columns, drafted, total)
        mass, drawn[node] = _draw(weights, uniform[node], totals)
        rest[node] = mass / total


@jit_inlined
def _take_out(
    weights: FloatArray, node: int, nodes: IntArray, columns: IntArray, drafted: FloatArray, total: float
) -> None:
    """Write the share that the columns have of a total, in the rows of a node, if any; their weights become 0."""
    found, share = False, 1.0 / total
    for row in range(len(nodes)):
        if nodes[row] == node:
            found = True
            for place in range(len(columns)):
                drafted[row, place] = weights[columns[place]] * share
    if found:
        for place in range(len(columns)):
            weights[columns[place]] = 0.0


@jit_inlined
def _draw(weights: FloatArray, uniform: float, totals: FloatArray) -> tuple[float, int]:
    """The total of weights, shape (V,), and the token that a uniform number draws; `totals` is worked on."""
    vocab = len(weights)
    for block in range(len(totals)):
        totals[block] = _total(weights[block * BLOCK : (block + 1) * BLOCK])
    rest = _total(totals)
    wanted, chosen, drawn = uniform * rest, 0, 0
    # By rounding the end of a block, or of all, may be passed: then it is the last token that has a probability.
    for block in range(len(totals)):
        if totals[block] > 0.0:
            chosen = block
            if wanted < totals[block]:
                break
            wanted -= totals[block]
    for token in range(chosen * BLOCK, min((chosen + 1) * BLOCK, vocab)):
        if weights[token] > 0.0:
            drawn = token
            wanted -= weights[token]
            if wanted < 0.0:
                break
    return rest, drawn


@jit_of_sums
def _total(weights: FloatArray) -> float:
    total = 0.0
    for entry in range(len(weights)):
        total += weights[entry]
    return total


@jit_of_sums
def _weigh(scores: Gains, weights: FloatArray) -> float:
    """Write e to each score less the greatest, and return their total: NaN where there is no law."""
    most = greatest(scores)
    if not most > -np.inf:
        return np.nan
    total = 0.0
    for token in range(len(scores)):
        weights[token] = exp64(np.float64(scores[token]) - most)
        total += weights[token]
    return total

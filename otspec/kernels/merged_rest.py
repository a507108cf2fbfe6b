"""At every node what can be drafted apart from the rest, of which one token is drawn, on a CPU.

Of laws, or of the scores whose softmax they are: these are then in no memory but a row's, which stays in a cache.
"""

from __future__ import annotations

import numpy as np

from otspec.jit import jit_inlined, jit_of_sums, jit_vectorised
from otspec.kernels.exponentials import exp64, greatest
from otspec.kernels.few_rows import Bits, Gains, widened
from otspec.laws import BoolArray, FloatArray, IntArray

BLOCK = 256
"""Tokens whose total is one number when a token is sought."""
NONE = -1
"""No token."""


@jit_vectorised
def split_laws(
    laws: FloatArray, wanted: BoolArray, columns: IntArray, uniform: FloatArray, target: FloatArray, drawn: IntArray
) -> None:
    """Split laws into probabilities of tokens that can be drafted and a rest, and draw a token of every rest.

    Parameters
    ----------
    laws : shape (N, V)
        Used up: what can be drafted at a node becomes 0.
    wanted : shape (N,)
        The nodes whose laws are split.
    columns : shape (k,)
        What can be drafted there.
    uniform : shape (N,)
        In [0, 1).
    target : shape (N, k + 1)
        Written: probabilities of the columns, and of all other tokens together; elsewhere 0 and 1.
    drawn : shape (N,)
        Written: one of the others, in proportion to its probability, some token where none has any; elsewhere `NONE`.
    """
    totals = np.empty((laws.shape[1] + BLOCK - 1) // BLOCK)
    for node in range(len(laws)):
        if wanted[node]:
            drawn[node] = _split(laws[node], 1.0, columns, uniform[node], target[node], totals)
        else:
            drawn[node] = _whole(target[node])


@jit_vectorised
def split_scores(
    scores: Gains | Bits, wanted: BoolArray, columns: IntArray, uniform: FloatArray, target: FloatArray, drawn: IntArray
) -> None:
    """`split_laws` of the softmax of scores, shape (N, V), which stay as they are; NaN where that is none."""
    vocab = scores.shape[1]
    numbers, weights, totals = np.empty(vocab, np.float32), np.empty(vocab), np.empty((vocab + BLOCK - 1) // BLOCK)
    for node in range(len(scores)):
        if not wanted[node]:
            drawn[node] = _whole(target[node])
            continue
        if scores.itemsize == numbers.itemsize:
            numbers[:] = scores[node]
        else:
            for token in range(vocab):
                numbers[token] = widened(np.uint16(scores[node, token]))
        total = _weigh(numbers, weights)
        drawn[node] = _split(weights, total, columns, uniform[node], target[node], totals)


@jit_inlined
def _split(
    weights: FloatArray, total: float, columns: IntArray, uniform: float, target: FloatArray, totals: FloatArray
) -> int:
    """Write the shares of a total that columns and the rest have, and draw of the rest; weights of columns become 0."""
    share = 1.0 / total
    for place in range(len(columns)):
        target[place] = weights[columns[place]] * share
        weights[columns[place]] = 0.0
    rest, drawn = _draw(weights, uniform, totals)
    target[len(columns)] = rest * share
    return drawn


@jit_inlined
def _whole(target: FloatArray) -> int:
    """Write that all is rest."""
    target[:] = 0.0
    target[-1] = 1.0
    return NONE


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

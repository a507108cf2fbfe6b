"""At every node what can be drafted apart from the rest, of which one token is drawn: laws on a CPU, read once."""

from __future__ import annotations

import numpy as np

from otspec.jit import jit_of_sums, jit_vectorised
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
    for row in range(len(nodes)):
        for place in range(len(columns)):
            drafted[row, place] = laws[nodes[row], columns[place]]
    for row in range(len(nodes)):
        for place in range(len(columns)):
            laws[nodes[row], columns[place]] = 0.0
    vocab = laws.shape[1]
    totals = np.empty((vocab + BLOCK - 1) // BLOCK)
    for node in range(len(laws)):
        for block in range(len(totals)):
            totals[block] = _total(laws[node, block * BLOCK : (block + 1) * BLOCK])
        rest[node] = _total(totals)
        wanted, chosen, drawn[node] = uniform[node] * rest[node], 0, 0
        # By rounding the end of a block, or of all, may be passed: then it is the last token that has a probability.
        for block in range(len(totals)):
            if totals[block] > 0.0:
                chosen = block
                if wanted < totals[block]:
                    break
                wanted -= totals[block]
        for token in range(chosen * BLOCK, min((chosen + 1) * BLOCK, vocab)):
            if laws[node, token] > 0.0:
                drawn[node] = token
                wanted -= laws[node, token]
                if wanted < 0.0:
                    break


@jit_of_sums
def _total(weights: FloatArray) -> float:
    total = 0.0
    for entry in range(len(weights)):
        total += weights[entry]
    return total

"""Truncations on a CPU without sorting all tokens: the likeliest, a nucleus, and no unlikely ones.

A sort of 49 152 scores by torch takes some four milliseconds.  Here tokens fall into bins by the first bits of their
weights, and only the bins that a truncation ends in are sorted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from otspec.jit import jit, jit_vectorised
from otspec.kernels.exponentials import exp64, greatest
from otspec.kernels.few_rows import Gains
from otspec.laws import FloatArray, IntArray

SHIFT = 47
"""What is left of the bits of a float64 has the exponent, and a 32nd of what lies between two powers of 2."""
BINS = 64 * 32 + 1
"""From the greatest weight down; the last one has all else."""


@jit
def truncate(scores: Gains, top_k: int, top_p: float, min_p: float) -> None:
    """Put -inf for the scores, shape (R, V), of all tokens that are cut, one truncation after the other.

    Rows that have NaN or infinity, or -inf alone, stay as they are: there is no law.

    Parameters
    ----------
    scores : shape (R, V)
        Changed in place.
    top_k, top_p
        As in `least_left`.
    min_p : float
        The least probability, over that of the likeliest token.
    """
    for row in range(len(scores)):
        truncate_row(scores[row], 1.0, top_k, top_p, min_p)


@jit
def truncate_row(scores: Gains, temperature: float, top_k: int, top_p: float, min_p: float) -> None:
    """`truncate` of one row, shape (V,), by what its scores are over a temperature."""
    most = greatest(scores)
    if not most > -np.inf:
        return
    weights = np.empty(len(scores))
    _weigh(scores, most, temperature, weights)
    least, last = least_left(weights, top_k, top_p)
    least, last = (min_p, len(scores)) if least < min_p else (least, last)
    for token in range(len(scores)):
        if weights[token] < least or (weights[token] == least and token > last):
            scores[token] = -np.inf


@jit
def least_left(weights: FloatArray, top_k: int, top_p: float) -> tuple[float, int]:
    """The least weight that truncations leave, and the last token that they leave of those that have it.

    Parameters
    ----------
    weights : shape (V,)
        Not negative; they need not add up to 1.
    top_k : int
        Of the likeliest tokens, and of those as likely as the last of them; 0 for all.
    top_p : float
        The least share that the likeliest tokens have together of what `top_k` leaves; of equal ones the first are in
        front, as few as will do.
    """
    bits = weights.view(np.int64)
    most = bits.max()
    bins, counts, masses = np.empty(len(weights), np.int16), np.zeros(BINS, np.int64), np.zeros(BINS)
    for token in range(len(weights)):
        bins[token] = min((most - bits[token]) >> SHIFT, BINS - 1)
        counts[bins[token]] += 1
        masses[bins[token]] += weights[token]
    least, last, end = 0.0, len(weights), BINS - 1
    if 0 < top_k < len(weights):
        end, before = 0, 0
        while before + counts[end] < top_k:
            before += counts[end]
            end += 1
        inside = _of_bin(weights, bins, end)
        least, masses[end] = weights[inside[top_k - before - 1]], 0.0
        for token in inside:
            masses[end] += weights[token] if weights[token] >= least else 0.0
    if top_p < 1.0:
        wanted, reached, of = top_p * masses[: end + 1].sum(), 0.0, 0
        while of < end and reached + masses[of] < wanted:
            reached += masses[of]
            of += 1
        floor = least
        for token in _of_bin(weights, bins, of):
            if reached >= wanted or weights[token] < floor:
                break
            reached += weights[token]
            least, last = weights[token], token
    return least, last


@jit
def _of_bin(weights: FloatArray, bins: NDArray[np.int16], wanted: int) -> IntArray:
    """The tokens of a bin, the likeliest first, and of equal ones the first."""
    inside = np.flatnonzero(bins == wanted)
    return inside[np.argsort(-weights[inside], kind="mergesort")]


@jit_vectorised
def _weigh(scores: Gains, most: float, temperature: float, weights: FloatArray) -> None:
    """Probabilities over that of the likeliest token."""
    for token in range(len(scores)):
        weights[token] = exp64((np.float64(scores[token]) - most) / temperature)

"""Tokens in ascending order of p/q, exactly: a radix sort of the ratios' leading bits, then a repair."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from otspec.jit import jit, jit_inlined
from otspec.laws import FloatArray, IndexArray, IntArray

KeyArray = npt.NDArray[np.uint64]

DIGIT = 11
"""Bits of a radix digit: its counters fill half of a first-level cache."""
TOKEN = 32 - DIGIT
"""Bits of a token beside a digit in one word; larger vocabularies are sorted by all bits of their ratios."""
INFINITE = 0x7FF0000000000000
"""The bits of infinity."""
FEW = 48
"""Up to this many tokens insertion alone is faster than two passes over 2048 counters."""
PATIENCE = 4
"""Moves per token that the repair may take before the ratios are sorted by all their bits."""


@jit
def sort_by_ratio(
    p: Any, q: Any, p_scale: float, q_scale: float, keys: KeyArray, order: IndexArray, target: Any, size: Any
) -> int:
    """Put the tokens with q > 0 in ascending order of p/q, ties in any order, and return their number k.

    The bit pattern of a positive double grows with its value.  The patterns are cut down to the 22 leading bits of the
    range that they span, which two passes of a radix sort put in order; insertion then orders what shares those bits.
    Where too much does (a cluster of nearly equal ratios, and one outlier), all 64 bits are sorted.

    The cost is memory traffic above all: nothing is kept that can be computed again from p and q, and between the two
    passes a token and the digit that is left share a word of 32 bits.

    Parameters
    ----------
    p, q : ndarray, shape (V,), float32 or float64
    p_scale, q_scale : float
        Factors that make laws of p and q.
    keys : ndarray of uint64, shape (2, V)
        Working memory.
    order, target, size : ndarray, shape (V,)
        Filled up to k: the tokens in order, their p and their q, which are probabilities.

    Returns
    -------
    int
        k, the number of tokens with q > 0.
    """
    ratio = keys[1].view(np.float64)
    k = 0
    for i in range(q.size):
        k += q[i] > 0
    if k == q.size:
        ratio[:k] = (p * p_scale) / (q * q_scale)  # by vector instructions
    else:
        k = 0
        for i in range(q.size):
            if q[i] > 0:
                ratio[k] = (p[i] * p_scale) / (q[i] * q_scale)
                k += 1
    patience = PATIENCE * k
    if k <= FEW:
        patience = k * k
        k = 0
        for i in range(p.size):
            if q[i] > 0:
                order[k] = i
                k += 1
    elif p.size <= 1 << TOKEN:
        _sort_by_leading_bits(q, k, keys, order)
    else:
        _sort_by_all_bits(p, q, p_scale, q_scale, keys, order)
    if _gather(p, q, p_scale, q_scale, order[:k], patience, target, size) < 0:
        _sort_by_all_bits(p, q, p_scale, q_scale, keys, order)
        _gather(p, q, p_scale, q_scale, order[:k], k, target, size)
    return k


@jit
def _sort_by_leading_bits(q: Any, k: int, keys: KeyArray, order: IndexArray) -> None:
    """Sort the tokens with q > 0 by the leading bits of the range that their ratios span.

    Parameters
    ----------
    q : ndarray, shape (V,), float32 or float64
        Draft weights.
    k : int
        How many of them are positive.
    keys : ndarray of uint64, shape (2, V)
        The second row begins with the bits of the ratios of these tokens; the first is overwritten.
    order : ndarray, shape (V,)
        Filled up to k.
    """
    bits, one, infinite = keys[1], np.uint64(1), np.uint64(INFINITE)
    least, most = infinite, np.uint64(0)
    for j in range(k):
        least = min(least, bits[j] - one)  # of the ratio 0 this is the largest number there is
        most = max(most, bits[j] if bits[j] < infinite else np.uint64(0))
    last = np.uint64((1 << (2 * DIGIT)) - 1)  # for the infinite ones, as 0 is for the ratio 0
    shift = np.uint64(0)
    while most > least and ((most - least) >> shift) >= last:
        shift += one
    words = keys[0].view(np.uint32)
    cut, rest = words[:k], words[q.size : q.size + k]
    for j in range(k):
        key = ((bits[j] - one - least) >> shift) + one if bits[j] > np.uint64(0) else np.uint64(0)
        cut[j] = min(key, last)
    digit, mask = np.uint32(DIGIT), np.uint32((1 << DIGIT) - 1)
    starts = np.zeros((2, 1 << DIGIT), dtype=np.int64)
    lower, upper = starts[0], starts[1]
    for j in range(k):
        lower[cut[j] & mask] += 1
        upper[cut[j] >> digit] += 1
    _add_up(lower)
    _add_up(upper)
    token = np.uint32(TOKEN)
    k = 0
    for i in range(q.size):
        if q[i] > 0:
            at = cut[k] & mask
            rest[lower[at]] = ((cut[k] >> digit) << token) | np.uint32(i)
            lower[at] += 1
            k += 1
    for j in range(k):
        at = rest[j] >> token
        order[upper[at]] = rest[j] & np.uint32((1 << TOKEN) - 1)
        upper[at] += 1


@jit_inlined
def _add_up(counts: IntArray) -> None:
    """Replace counts, shape (2048,), by the sums of those before each."""
    total = 0
    for value in range(counts.size):
        count = counts[value]
        counts[value] = total
        total += count


@jit
def _sort_by_all_bits(p: Any, q: Any, p_scale: float, q_scale: float, keys: KeyArray, order: IndexArray) -> None:
    """Sort the tokens with q > 0 by the lower half of their ratios' bits first, then, stably, by the upper half.

    Parameters
    ----------
    p, q : ndarray, shape (V,), float32 or float64
    p_scale, q_scale : float
        Factors that make laws of p and q.
    keys : ndarray of uint64, shape (2, V)
        Overwritten.
    order : ndarray, shape (V,)
        Filled with these tokens.
    """
    k = 0
    for i in range(q.size):
        if q[i] > 0:
            keys[0, k] = i
            k += 1
    ordered = keys[0, :k]
    for half in (np.uint64(0), np.uint64(32)):
        other = keys[1, :k] if half == 0 else keys[0, :k]
        ratio = other.view(np.float64)
        for j in range(k):
            i = ordered[j] & np.uint64(0xFFFFFFFF)
            ratio[j] = (p[i] * p_scale) / (q[i] * q_scale)
            ordered[j] = ((other[j] >> half) << np.uint64(32)) | i
        ordered = _sort_by_upper_half(ordered, other)
    for j in range(k):
        order[j] = ordered[j] & np.uint64(0xFFFFFFFF)


@jit
def _sort_by_upper_half(keys: KeyArray, other: KeyArray) -> KeyArray:
    """Stable sort by the bits above bit 32, in three digits; the lower 32 bits travel along.

    Parameters
    ----------
    keys : ndarray of uint64, shape (k,)
        What to sort; overwritten.
    other : ndarray of uint64, shape (k,)
        Working memory.

    Returns
    -------
    ndarray of uint64, shape (k,)
        `other`, which holds the result.
    """
    mask = np.uint64((1 << DIGIT) - 1)
    shift = np.uint64(32)
    for _ in range(3):
        start = np.zeros(1 << DIGIT, dtype=np.int64)
        for key in keys:
            start[(key >> shift) & mask] += 1
        _add_up(start)
        for key in keys:
            value = (key >> shift) & mask
            other[start[value]] = key
            start[value] += 1
        keys, other = other, keys
        shift += np.uint64(DIGIT)
    return keys


@jit
def _gather(
    p: Any,
    q: Any,
    p_scale: float,
    q_scale: float,
    order: IndexArray,
    patience: int,
    target: FloatArray,
    size: FloatArray,
) -> int:
    """Fetch the p and the q of tokens, and insert what is not in order yet.

    Parameters
    ----------
    p, q : ndarray, shape (V,), float32 or float64
    p_scale, q_scale : float
        Factors that make laws of p and q.
    order : ndarray, shape (k,)
        The tokens, nearly in order; put in order.
    patience : int
        Moves that the repair may take.
    target, size : ndarray, shape (V,)
        As in `sort_by_ratio`; filled up to k.

    Returns
    -------
    int
        k; or -1 when out of patience, which loses a token of `order`.
    """
    before = 0.0
    for j in range(order.size):
        i = np.uint64(order[j])
        a = p[i] * p_scale
        b = q[i] * q_scale
        value = a / b
        if value >= before:
            before = value
            target[j] = a
            size[j] = b
            continue
        at = j
        while at > 0 and target[at - 1] / size[at - 1] > value:
            order[at], target[at], size[at] = order[at - 1], target[at - 1], size[at - 1]
            at -= 1
        patience -= j - at
        if patience < 0:
            return -1
        order[at], target[at], size[at] = i, a, b
    return order.size

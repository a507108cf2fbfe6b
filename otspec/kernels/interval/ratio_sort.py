"""Tokens in ascending order of p/q, exactly: a radix sort of the ratios' leading bits, then a repair."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from otspec.jit import jit
from otspec.laws import FloatArray, IndexArray

KeyArray = npt.NDArray[np.uint64]

DIGIT = 11
"""Bits of a radix digit: its counters fill half of a first-level cache."""
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

    The cost is memory traffic above all: nothing is stored that can be computed again from p and q.

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
    least = np.inf
    most = 0.0
    for i in range(p.size):
        if q[i] > 0:
            value = (p[i] * p_scale) / (q[i] * q_scale)
            ratio[k] = value
            k += 1
            least = min(least, value if value > 0.0 else np.inf)
            most = max(most, value if value < np.inf else 0.0)
    if k <= FEW:
        k = 0
        for i in range(p.size):
            if q[i] > 0:
                keys[0, k] = i
                k += 1
        return _gather(p, q, p_scale, q_scale, keys[0, :k], k * k, order, target, size)
    _cut_down(q, least, most, keys)
    ordered = _radix_sort(keys[0, :k], keys[1, :k], 2)
    if _gather(p, q, p_scale, q_scale, ordered, PATIENCE * k, order, target, size) < 0:
        ordered = _sort_by_all_bits(p, q, p_scale, q_scale, keys[0, :k], keys[1, :k])
        _gather(p, q, p_scale, q_scale, ordered, ordered.size, order, target, size)
    return k


@jit
def _cut_down(q: Any, least: float, most: float, keys: KeyArray) -> None:
    """Cut the ratios down to the leading bits of the range that they span, and put their tokens beside them.

    Parameters
    ----------
    q : ndarray, shape (V,), float32 or float64
        Draft weights.
    least, most : float
        The least ratio above 0, and the largest that is finite.
    keys : ndarray of uint64, shape (2, V)
        The second row begins with the bits of the ratios of tokens with q > 0; the first is filled with keys in the
        upper halves and tokens in the lower ones.
    """
    bits, ratio = keys[1], keys[1].view(np.float64)
    ends = np.array([least, most]).view(np.uint64)
    low = ends[0]
    span = ends[1] - low if most >= least else np.uint64(0)
    last = np.uint64((1 << (2 * DIGIT)) - 1)  # the key 0 is for the ratio 0; those that are infinite are repaired
    shift = np.uint64(0)
    while (span >> shift) > last - np.uint64(1):
        shift += np.uint64(1)
    k = 0
    for i in range(q.size):
        if q[i] > 0:
            key = ((bits[k] - low) >> shift) + np.uint64(1)
            if ratio[k] == 0.0:
                key = np.uint64(0)
            keys[0, k] = (key << np.uint64(32)) | np.uint64(i)
            k += 1


@jit
def _sort_by_all_bits(p: Any, q: Any, p_scale: float, q_scale: float, keys: KeyArray, other: KeyArray) -> KeyArray:
    """Sort the ratios by the lower half of their bits first, then, stably, by the upper half.

    Parameters
    ----------
    p, q : ndarray, shape (V,), float32 or float64
    p_scale, q_scale : float
        Factors that make laws of p and q.
    keys : ndarray of uint64, shape (k,)
        The tokens with q > 0, in the lower halves, in any order; overwritten.
    other : ndarray of uint64, shape (k,)
        Working memory.

    Returns
    -------
    ndarray of uint64, shape (k,)
        The tokens in order, in the lower halves.
    """
    for half in (np.uint64(0), np.uint64(32)):
        ratio = other.view(np.float64)
        for j in range(keys.size):
            i = keys[j] & np.uint64(0xFFFFFFFF)
            ratio[j] = (p[i] * p_scale) / (q[i] * q_scale)
            keys[j] = ((other[j] >> half) << np.uint64(32)) | i
        keys, other = _radix_sort(keys, other, 3), keys
    return keys


@jit
def _radix_sort(keys: KeyArray, other: KeyArray, digits: int) -> KeyArray:
    """Stable sort by the `digits` * 11 bits above bit 32; the lower 32 bits travel along.

    Parameters
    ----------
    keys : ndarray of uint64, shape (k,)
        What to sort; overwritten.
    other : ndarray of uint64, shape (k,)
        Working memory.
    digits : int
        Digits of `DIGIT` bits to sort by.

    Returns
    -------
    ndarray of uint64, shape (k,)
        The one of both arrays that holds the result: `keys` if `digits` is even.
    """
    mask = np.uint64((1 << DIGIT) - 1)
    starts = np.zeros((digits, 1 << DIGIT), dtype=np.int64)
    for i in range(keys.size):
        rest = keys[i] >> np.uint64(32)
        for digit in range(digits):
            starts[digit, rest & mask] += 1
            rest >>= np.uint64(DIGIT)
    shift = np.uint64(32)
    for digit in range(digits):
        start = starts[digit]
        total = 0
        for value in range(start.size):
            count = start[value]
            start[value] = total
            total += count
        for i in range(keys.size):
            value = (keys[i] >> shift) & mask
            other[start[value]] = keys[i]
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
    keys: KeyArray,
    patience: int,
    order: IndexArray,
    target: FloatArray,
    size: FloatArray,
) -> int:
    """Fetch what the sorted keys point to, and insert what is not in order yet.

    Parameters
    ----------
    p, q : ndarray, shape (V,), float32 or float64
    p_scale, q_scale : float
        Factors that make laws of p and q.
    keys : ndarray of uint64, shape (k,)
        Tokens in their lower halves, nearly in order.
    patience : int
        Moves that the repair may take.
    order, target, size : ndarray, shape (V,)
        As in `sort_by_ratio`; filled up to k.

    Returns
    -------
    int
        k; or -1 when out of patience.
    """
    before = 0.0
    for j in range(keys.size):
        i = keys[j] & np.uint64(0xFFFFFFFF)
        a = p[i] * p_scale
        b = q[i] * q_scale
        value = a / b
        at = j
        if value < before:
            while at > 0 and target[at - 1] / size[at - 1] > value:
                order[at], target[at], size[at] = order[at - 1], target[at - 1], size[at - 1]
                at -= 1
            patience -= j - at
            if patience < 0:
                return -1
        else:
            before = value
        order[at] = i
        target[at] = a
        size[at] = b
    return keys.size

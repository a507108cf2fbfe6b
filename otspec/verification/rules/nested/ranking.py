"""The tokens of a prefix in ascending order of p/q: sorted, or in buckets of nearly equal ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from otspec.jit import jit
from otspec.kernels.interval.ratio_sort import sort_by_ratio
from otspec.laws import FloatArray, IndexArray

FINEST = 2.0**-8
"""Grains from here on are sorted into buckets; finer ones would have too many."""

REACH = 32
"""Buckets distinguish ratios p/q between 2**-REACH and 2**REACH."""

SLIGHT = 2.0**-10
"""Neighbouring buckets are one rank while its p and its q are below this: most tokens are in buckets of hardly any."""


class Ranked(NamedTuple):
    """The tokens that can be drafted, by p/q."""

    tokens: IndexArray
    """Shape (n,)."""
    bucket: IndexArray
    """Shape (n,): the bucket of each; buckets ascend in p/q."""
    rank: IndexArray
    """Shape (buckets,): the rank of each bucket."""
    target: FloatArray
    """Shape (k,): p of each rank."""
    size: FloatArray
    """Shape (k,): q of each rank."""


@jit
def rank_all(p: FloatArray, q: FloatArray) -> Ranked:
    """Sort all tokens: every one has a rank of its own.

    Parameters
    ----------
    p, q : ndarray, shape (V,)
        Target and draft law.
    """
    keys, order = np.empty((2, q.size), dtype=np.uint64), np.empty(q.size, dtype=np.int32)
    target, size = np.empty(q.size), np.empty(q.size)
    k = sort_by_ratio(p, q, 1.0, 1.0, keys, order, target, size)
    each = np.arange(k).astype(np.int32)
    return Ranked(order[:k], each, each, target[:k], size[:k])


@jit
def bucket(p: FloatArray, q: FloatArray, grain: float) -> Ranked:
    """Put tokens into buckets whose p/q differ by less than half the grain.

    The bit pattern of a positive double grows with its value, so its leading bits name the bucket: nothing is sorted.
    Ratios beyond 2**-`REACH` and 2**`REACH` share a bucket at either end: such tokens have hardly any p, or any q.
    Buckets in a row share a rank as long as it is slight (`SLIGHT`).

    Parameters
    ----------
    p, q : ndarray, shape (V,)
        Target and draft law.
    grain : float
        `FINEST` at least.
    """
    digits = max(int(np.ceil(np.log2(2.0 / grain))), 0)
    lowest = (1023 - REACH) << digits
    span = (2 * REACH << digits) + 2
    ratio = np.empty(1)
    bits = ratio.view(np.int64)
    tokens, bucket_of = np.empty(q.size, dtype=np.int32), np.empty(q.size, dtype=np.int32)
    count, first, last = 0, span, -1
    for x in range(q.size):
        if q[x] > 0.0:
            ratio[0] = p[x] / q[x]
            at = min(max((bits[0] >> (52 - digits)) - lowest + 1, 0), span - 1)
            first, last = min(first, at), max(last, at)
            tokens[count], bucket_of[count] = x, at
            count += 1
    buckets = last - first + 1
    sums = np.zeros((buckets, 2))
    for i in range(count):
        bucket_of[i] -= first
        sums[bucket_of[i], 0] += p[tokens[i]]
        sums[bucket_of[i], 1] += q[tokens[i]]
    rank, target, size = np.empty(buckets, dtype=np.int32), np.empty(buckets), np.empty(buckets)
    k = 0
    for at in range(buckets):
        if sums[at, 1] > 0.0:
            if k > 0 and target[k - 1] + sums[at, 0] < SLIGHT and size[k - 1] + sums[at, 1] < SLIGHT:
                target[k - 1] += sums[at, 0]
                size[k - 1] += sums[at, 1]
            else:
                target[k], size[k] = sums[at, 0], sums[at, 1]
                k += 1
        rank[at] = k - 1
    return Ranked(tokens[:count], bucket_of[:count], rank, target[:k], size[:k])

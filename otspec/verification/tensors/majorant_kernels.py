"""Breakpoints of a least concave majorant in Triton: `majorant.breakpoints`, to the last bit, a row to a program.

It repeats in lanes what `majorant` does with rows of tensors, because a prefix is shared out by one program, for which
a row in memory of its own is near, and a launch for every round would be far.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl

from otspec.verification.tensors import majorant
from otspec.verification.tensors.arithmetic_kernels import larger

HALVINGS, LOWEST = tl.constexpr(majorant.HALVINGS), tl.constexpr(majorant.LOWEST)
NOISE, LEAST = tl.constexpr(majorant.NOISE), tl.constexpr(majorant.LEAST)


class Search(NamedTuple):
    """What is fixed of a search for breakpoints, as a kernel hands it on; `majorant.key_shifts` has the last two."""

    KEYS: int
    SHIFT: int
    NUMBER: int


@triton.jit
def as_point(run, rise):  # (LANES,)
    """Two numbers in single precision, as one."""
    high, low = run.to(tl.int32, bitcast=True).to(tl.int64), rise.to(tl.int32, bitcast=True).to(tl.int64)
    return (high << 32) | low


@triton.jit
def of_point(point):  # (LANES,)
    """What it was made of."""
    high, low = (point >> 32).to(tl.int32), point.to(tl.int32)
    return high.to(tl.float32, bitcast=True), low.to(tl.float32, bitcast=True)


@triton.jit
def find_breakpoints(
    curve,  # (places + 1,), of `as_point`
    places, one, other,  # scalars: the number of places, and breakpoints to start from
    LANES: tl.constexpr,
    search,  # `Search`
):  # fmt: skip
    """`majorant.breakpoints`, of points in memory, of which only those up to `places` are there."""
    index = tl.arange(0, LANES)
    low, high = tl.minimum(one, other), tl.maximum(one, other)
    begin = tl.where(index < low, 0, tl.where(index < high, low, tl.where(index < places, high, places)))
    end = tl.where(index <= low, low, tl.where(index <= high, high, places))
    end = tl.where(index == 0, 0, end)
    segment = (index >= low).to(tl.int32) + (index >= high).to(tl.int32)
    at_run, at_rise = of_point(tl.load(curve + tl.minimum(index, places)))
    for _ in range(HALVINGS):
        begin_run, begin_rise = of_point(tl.load(curve + begin))
        end_run, end_rise = of_point(tl.load(curve + end))
        width, rise = end_run - begin_run, end_rise - begin_rise
        height = width * (at_rise - begin_rise) - rise * (at_run - begin_run)
        high_above = (height > tl.maximum((width + rise) * NOISE, LEAST)) & (index <= places)
        code = (height.to(tl.int32, bitcast=True) - LOWEST) >> search.SHIFT
        first = segment << search.NUMBER
        key = tl.where(high_above, code * search.KEYS + (search.KEYS - 1 - index), 0)
        ran_up = tl.associative_scan(first + key, 0, larger)
        highest = tl.gather(ran_up, tl.maximum(end - 1, 0), 0) - first
        parted = (highest > 0) & (index > begin) & (index < end)
        vertex = search.KEYS - 1 - highest % search.KEYS
        right = parted & (index >= vertex)
        segment = 2 * segment + right.to(tl.int32)
        begin, end = tl.where(right, vertex, begin), tl.where(parted & (index <= vertex), vertex, end)
    return begin, end

"""Labels on a grid in Triton: `grid`, operation by operation, a prefix to a program.

Shapes: a grid has BINS bins, in BIN_LANES lanes; GRIDS planes of a prefix are grids.
"""

from __future__ import annotations

import triton
import triton.language as tl

from otspec.verification.rules.nested import grid
from otspec.verification.tensors.arithmetic_kernels import before, halved, powers
from otspec.verification.tensors.rows import lanes

LABELS, OWN, BINNED, WINS = (tl.constexpr(plane) for plane in range(4))
GRIDS = tl.constexpr(4)
BINS, FAINT = tl.constexpr(grid.BINS), tl.constexpr(grid.FAINT)
BIN_LANES, BIN_ROUNDS = tl.constexpr(lanes(grid.BINS)), tl.constexpr(grid.BINS.bit_length())
"""Rounds are those of a search for a bin."""


@triton.jit
def search(
    sums,  # (ENTRIES,)
    keys,  # (LANES,)
    ENTRIES: tl.constexpr, ROUNDS: tl.constexpr,
):  # fmt: skip
    """`fixed_point.first_above`, but for the last entry if there is none: in memory."""
    low = tl.zeros_like(keys).to(tl.int32)
    high = low + ENTRIES
    for _ in range(ROUNDS):
        low, high = halved(sums, keys, low, high, True)
    return tl.minimum(low, ENTRIES - 1)


@triton.jit
def interpolated(
    sums, ends,  # (k,)
    points, place,  # (LANES,)
):  # fmt: skip
    """`grid.interpolate`, for points that lie in known places."""
    begin, low = before(ends, place), before(sums, place)
    width, rise = tl.load(ends + place) - begin, tl.load(sums + place) - low
    inside = points - begin
    part = (inside.to(tl.float64) / tl.maximum(width, 1).to(tl.float64) * rise.to(tl.float64)).to(tl.int64)
    return low + tl.where(inside >= width, rise, tl.minimum(tl.maximum(part, 0), rise))


@triton.jit
def chances(masses, density, inside):  # (BIN_LANES,)
    """`grid.chances`."""
    return tl.cumsum(tl.where(inside, (masses.to(tl.float64) * density).to(tl.int64), 0), 0)


@triton.jit
def even_labels(bins):  # (BIN_LANES,)
    """`grid.everything`, as running sums."""
    return (bins + 1).to(tl.int64) * (4611686018427387904 // BINS)


@triton.jit
def branch(
    longs, densities,  # (GRIDS, BINS), (BINS,)
    ends, density,  # (BIN_LANES,)
    children,  # scalar
    BITS: tl.constexpr,
):  # fmt: skip
    """`grid.branch`: the labels of any one of a slot's children; no slot of the level has several if BITS is 1."""
    bins = tl.arange(0, BIN_LANES)
    inside = bins < BINS
    if BITS > 1:  # noqa: SIM102  # known when it is compiled, unlike what follows
        if children > 1:
            labels = longs + LABELS * BINS
            tl.store(labels + bins, ends, mask=inside)  # those of the first slot are only in lanes
            tl.debug_barrier()
            masses = ends - tl.load(labels + bins - 1, mask=inside & (bins > 0), other=0)
            tl.store(longs + WINS * BINS + bins, chances(masses, density, inside), mask=inside)
            tl.debug_barrier()
            whole = tl.load(labels + BINS - 1)
            steps = tl.minimum((bins + 1).to(tl.float64) / BINS, 1.0)
            points = (powers(steps, children + tl.zeros_like(bins), BITS) * whole.to(tl.float64)).to(tl.int64)
            points = tl.minimum(points, whole)
            place = search(labels, points, BINS, BIN_ROUNDS)
            reached = interpolated(longs + WINS * BINS, labels, points, place)
            tl.store(longs + BINNED * BINS + bins, reached, mask=inside)
            tl.debug_barrier()
            earlier = tl.load(longs + BINNED * BINS + bins - 1, mask=inside & (bins > 0), other=0)
            density = tl.where(inside, reached - earlier, 0).to(tl.float64)
            top = tl.max(density)
            density = tl.maximum(tl.where(top > 0, density / tl.where(top > 0, top, 1.0), 1.0), FAINT)
            ends = even_labels(bins)
            tl.debug_barrier()
    tl.store(longs + OWN * BINS + bins, ends, mask=inside)
    tl.store(densities + bins, density, mask=inside)
    return ends, density

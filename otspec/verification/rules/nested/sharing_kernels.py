"""How prefixes share their labels in Triton: `tensor_sharing.share` and `owned`, a prefix to a program.

A program has a lane for each place of its prefix, and one more for the point behind the last.  What lanes look up of
each other, by searches and at breakpoints, lies in memory, in cache; there is a barrier before it is read.  Every
operation is that of torch, so that all numbers come out the same to the last bit.

Planes are arrays of one prefix: DOWN of what it hands down to its children, WORKED of what it works on, SUMS of its
groups, PARTED of their parts; `grid_kernels` has those of grids.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from otspec.verification.rules.nested.grid_kernels import (
    BIN_LANES,
    BIN_ROUNDS,
    BINNED,
    BINS,
    WINS,
    chances,
    interpolated,
    search,
)
from otspec.verification.tensors.arithmetic_kernels import before
from otspec.verification.tensors.majorant_kernels import as_point, find_breakpoints, of_point

ENDS, WANTED, SERVED, WORTH, RANK = (tl.constexpr(plane) for plane in range(5))
DOWN = tl.constexpr(5)
CURVE, SIZE, MASS, HELD = (tl.constexpr(plane) for plane in range(4))
WORKED = tl.constexpr(4)
SIZES, TARGETS, RATIOS = (tl.constexpr(plane) for plane in range(3))
SUMS = tl.constexpr(3)
PART_SIZE, PART_MASS = (tl.constexpr(plane) for plane in range(2))
PARTED = tl.constexpr(2)


class Counts(NamedTuple):
    """How many groups and parts there are, and lanes for them: what is fixed of them, as a kernel hands it on."""

    GROUPS: int
    GROUP_LANES: int
    FIRST: int
    """As `tensor_sharing.FIRST`."""
    PARTS: int
    """Of a group, where prefixes look ahead."""
    PART_LANES: int
    LANES: int
    """For all places, and one more point."""
    ROUNDS: int
    """Of a search for a place."""


class Parts(NamedTuple):
    """What is to be laid: parts of groups in ascending order, or groups if the prefix does not look ahead."""

    size: Tensor
    """Shape (LANES,): their q."""
    mass: Tensor
    """Shape (LANES,): their p."""
    item: Tensor
    """Shape (LANES,): which they are, part by part."""


class GroupSums(NamedTuple):
    """Running sums of q and p over the groups of a prefix."""

    sizes: Tensor
    """Shape (GROUPS,), in memory."""
    end: Tensor
    """Shape (GROUP_LANES,): the same in lanes."""
    target: Tensor
    """Shape (GROUP_LANES,): of p."""


class OwnLabels(NamedTuple):
    """The labels that a prefix shares out, in lanes and in memory."""

    longs: Tensor
    """Shape (GRIDS, BINS)."""
    densities: Tensor
    """Shape (BINS,)."""
    ends: Tensor
    """Shape (BIN_LANES,): what lies up to the bins."""
    density: Tensor
    """Shape (BIN_LANES,): how they win."""


@triton.jit
def nearest(units):  # (LANES,)
    """`tensor_sharing.nearest`."""
    return (units + 0.5).to(tl.int64)


@triton.jit
def last_of(
    values,  # (LANES,)
    COUNT: tl.constexpr,
):  # fmt: skip
    """The last of so many values, in every lane: not by a reduction, which takes much longer."""
    return tl.gather(values, tl.zeros(values.shape, tl.int32) + (COUNT - 1), 0)


@triton.jit
def add_both(one, other, more, another):  # scalars
    """Two sums."""
    return one + more, other + another


@triton.jit
def own(
    down,  # (DOWN, LANES), of the parent
    longs,  # (GRIDS, BINS), of the parent
    amounts,  # (LANES,)
    group,  # scalar
    found,  # (BINS,)
    AHEAD: tl.constexpr,
    counts,  # `Counts`
):  # fmt: skip
    """`tensor_sharing.owned`: the labels of a token of some group, from what its parent has stored."""
    each: tl.constexpr = counts.PARTS if AHEAD else 1
    rows: tl.constexpr = counts.PART_LANES if AHEAD else 1
    places: tl.constexpr = counts.GROUPS * each
    ends, worth = down + ENDS * counts.LANES, down + WORTH * counts.LANES
    wanted, served, rank = down + WANTED * counts.LANES, down + SERVED * counts.LANES, down + RANK * counts.LANES
    lanes, parts = tl.arange(0, counts.LANES), tl.arange(0, rows)
    inside, there = lanes < places, parts < each
    place = tl.minimum(group, counts.GROUPS - 1) + tl.zeros_like(parts).to(tl.int64)
    if AHEAD:
        place = tl.load(rank + place * counts.PARTS + parts, mask=there, other=0)
    later = inside & (lanes > 0)
    size = tl.load(ends + lanes, mask=inside, other=0) - tl.load(ends + lanes - 1, mask=later, other=0)
    here = tl.load(worth + lanes, mask=inside, other=0).to(tl.float64, bitcast=True)
    want, want_before = tl.load(wanted + lanes, mask=inside, other=0), tl.load(wanted + lanes - 1, mask=later, other=0)
    serve, serve_before = (
        tl.load(served + lanes, mask=inside, other=0),
        tl.load(served + lanes - 1, mask=later, other=0),
    )
    # A row for each part, and a lane for each place that it may have swapped with.
    low, high = before(wanted, place), tl.load(wanted + place)
    receives = high > low
    low = tl.where(receives, low, before(served, place))[:, None]
    high = tl.where(receives, high, tl.load(served + place))[:, None]
    value = tl.load(worth + place).to(tl.float64, bitcast=True)[:, None]
    mine = tl.where(there, tl.load(ends + place) - before(ends, place), 0)[:, None]
    receives = receives[:, None]
    theirs = tl.where(receives, serve[None, :], want[None, :])
    before_them = tl.where(receives, serve_before[None, :], want_before[None, :])
    moved = tl.maximum(tl.minimum(theirs, high) - tl.maximum(before_them, low), 0)
    gap = tl.abs(here[None, :] - value)
    trades = (moved > 0) & (gap > 0)
    swapped = tl.where(trades, moved.to(tl.float64) / tl.where(trades, gap, 1.0), 0.0)
    swapped = nearest(tl.minimum(swapped, tl.minimum(size[None, :], mine).to(tl.float64)))
    left = tl.maximum(mine - tl.sum(swapped, axis=1)[:, None], 0)
    amount = tl.sum(swapped + tl.where(lanes[None, :] == place[:, None], left, 0), axis=0)
    tl.store(amounts + lanes, tl.cumsum(amount, 0), mask=inside)
    tl.debug_barrier()
    bins = tl.arange(0, BIN_LANES)
    points = tl.load(longs + BINNED * BINS + bins, mask=bins < BINS, other=0)
    reached = interpolated(amounts, ends, points, search(ends, points, places, counts.ROUNDS))
    # A token that owns less than a unit shares all labels evenly: it is drafted with a chance of 2**-62.
    labels = tl.where(tl.load(amounts + places - 1) > 0, reached, points)
    tl.store(found + bins, labels, mask=bins < BINS)
    return labels


@triton.jit
def draw_line(
    prefix,  # `OwnLabels`
    units,  # scalar
):  # fmt: skip
    """`tensor_sharing._Line.of`: a prefix's labels end to end, as long as its children together; the line's scale."""
    longs, ends = prefix.longs, prefix.ends
    bins = tl.arange(0, BIN_LANES)
    inside = bins < BINS
    whole, total = last_of(ends, BINS), units.to(tl.float64)
    binned = (ends.to(tl.float64) * (total / whole.to(tl.float64))).to(tl.int64)
    binned = tl.where(ends == whole, units, tl.minimum(binned, units))
    tl.store(longs + BINNED * BINS + bins, binned, mask=inside)
    tl.debug_barrier()
    # From memory, so that all of it is near when it is searched.
    masses = binned - tl.load(longs + BINNED * BINS + bins - 1, mask=inside & (bins > 0), other=0)
    tl.store(longs + WINS * BINS + bins, chances(masses, prefix.density, inside), mask=inside)
    tl.debug_barrier()
    return total / tl.load(longs + WINS * BINS + BINS - 1).to(tl.float64)


@triton.jit
def worth_of(
    prefix,  # `OwnLabels`
    size, end, lanes, inside,  # (LANES,)
    scale,  # scalar
    LANES: tl.constexpr,
):  # fmt: skip
    """`tensor_sharing._Line.worth` of places that lie end to end.

    Each begins where the one before it ends; the first at 0, which is looked up by the last lane, as it has no place.
    """
    bins, wins = prefix.longs + BINNED * BINS, prefix.longs + WINS * BINS
    points = tl.where(inside, end, 0)
    place = search(bins, points, BINS, BIN_ROUNDS)
    reached = interpolated(wins, bins, points, place)
    down = tl.maximum(place - 1, 0)
    mine = tl.load(prefix.densities + place)
    falls = before(bins, place) >= end  # a place may end where a bin does
    high, highest = tl.where(falls, tl.load(prefix.densities + down), mine), tl.where(falls, down, place)
    earlier = (lanes + LANES - 1) % LANES
    lowest, low, from_it = tl.gather(place, earlier, 0), tl.gather(mine, earlier, 0), tl.gather(reached, earlier, 0)
    mean = (reached - from_it).to(tl.float64) / tl.maximum(size, 1).to(tl.float64)
    mean = tl.minimum(tl.maximum(mean, tl.minimum(low, high)), tl.maximum(low, high))
    return tl.where(lowest >= highest, low, mean) * scale


@triton.jit
def cut_of(
    sums,  # `GroupSums`
    longs,  # (GRIDS, BINS)
    scale, weight,  # scalars
    counts,  # `Counts`
):  # fmt: skip
    """How many groups come first: those whose proposal exceeds weight * p."""
    groups = tl.arange(0, counts.GROUP_LANES)
    bins = longs + BINNED * BINS
    place = search(bins, sums.end, BINS, BIN_ROUNDS)
    won = interpolated(longs + WINS * BINS, bins, sums.end, place).to(tl.float64) * scale
    height = (won - weight * sums.target.to(tl.float64)) * (2097152.0 / 4611686018427387904.0)
    height = tl.where(groups < counts.GROUPS, tl.maximum(height, 0.0), 0.0)
    most = tl.max(height.to(tl.int32) * counts.FIRST + (counts.FIRST - 1 - groups))
    return tl.where(most >= counts.FIRST, counts.FIRST - most % counts.FIRST, 0)


@triton.jit
def place_parts(
    parts,  # `Parts`
    cut,  # scalar
    rank, size, mass,  # (PLACES,)
    PARTS: tl.constexpr, LANES: tl.constexpr, PLACES: tl.constexpr,
):  # fmt: skip
    """`tensor_sharing._places`: the rank of each part of the groups, q and p in that order; those of CUT come first."""
    lanes = tl.arange(0, LANES)
    inside = lanes < PLACES
    first = inside & (parts.item < cut * PARTS)
    ahead = tl.cumsum(first.to(tl.int32), 0) - first.to(tl.int32)
    place = tl.where(first, ahead, cut * PARTS + lanes - ahead)
    tl.store(rank + parts.item, place.to(tl.int64), mask=inside)
    tl.store(size + place, parts.size, mask=inside)
    tl.store(mass + place, parts.mass, mask=inside)
    tl.debug_barrier()


@triton.jit
def share(
    down, worked,  # (DOWN, LANES), (WORKED, LANES)
    parts,  # `Parts`
    sums,  # `GroupSums`
    prefix,  # `OwnLabels`
    weight, competes,  # scalars
    factor,  # (GROUPS + 1,)
    AHEAD: tl.constexpr,
    counts,  # `Counts`
    majorant,  # `majorant_kernels.Search`
):  # fmt: skip
    """`tensor_sharing.share`: what the children of one prefix own, which stores it for them."""
    LANES: tl.constexpr = counts.LANES
    rank, curve, in_the_end = down + RANK * LANES, worked + CURVE * LANES, worked + HELD * LANES
    each: tl.constexpr = counts.PARTS if AHEAD else 1
    places: tl.constexpr = counts.GROUPS * each
    lanes = tl.arange(0, LANES)
    inside = lanes < places
    scale = draw_line(prefix, tl.load(sums.sizes + counts.GROUPS - 1))
    size, mass = parts.size, parts.mass
    if AHEAD:
        cut = cut_of(sums, prefix.longs, scale, weight, counts)
        place_parts(parts, cut, rank, worked + SIZE * LANES, worked + MASS * LANES, counts.PARTS, LANES, places)
        first = cut * counts.PARTS
        size = tl.load(worked + SIZE * LANES + lanes, mask=inside, other=0)
        mass = tl.load(worked + MASS * LANES + lanes, mask=inside, other=0)
    else:
        first = 0
    end, sums_of_p = tl.associative_scan((size, mass), 0, add_both)
    worth = worth_of(prefix, size, end, lanes, inside, scale, LANES)
    measure = tl.where(inside, nearest(size.to(tl.float64) * worth), 0)
    # Places of p = 0 come first: they keep what they have.
    weightless = tl.sum((inside & (sums_of_p == 0)).to(tl.int32))
    tl.store(down + ENDS * LANES + lanes, end, mask=inside)
    tl.store(down + WORTH * LANES + lanes, worth.to(tl.int64, bitcast=True), mask=inside)
    point = as_point(sums_of_p.to(tl.float32), tl.cumsum(measure, 0).to(tl.float32))
    tl.store(curve + lanes + 1, point, mask=inside)
    tl.store(curve, tl.zeros([], tl.int64))
    tl.debug_barrier()
    start, stop = find_breakpoints(curve, places, weightless, first, LANES, majorant)

    # `tensor_sharing._matched`: donors of a block hand on to earlier recipients.
    stop = tl.gather(stop, tl.minimum(lanes + 1, LANES - 1), 0)
    low_run, low_rise = of_point(tl.load(curve + start))
    high_run, high_rise = of_point(tl.load(curve + stop))
    width = high_run - low_run
    slope = tl.where(width > 0, tl.div_rn(high_rise - low_rise, tl.where(width > 0, width, 1.0)), 0.0).to(tl.float64)
    due = tl.where(width > 0, nearest(slope * mass.to(tl.float64)), measure)
    wish, surplus = tl.where(inside, tl.maximum(due - measure, 0), 0), tl.where(inside, tl.maximum(measure - due, 0), 0)
    wished, offered = tl.associative_scan((wish, surplus), 0, add_both)
    wished -= tl.gather(wished - wish, start, 0)
    offered -= tl.gather(offered - surplus, start, 0)
    earlier = tl.where(lanes > start, tl.minimum(wished - wish, offered - surplus), 0)
    serve = tl.where(surplus > 0, tl.minimum(wished, offered) - earlier, 0)
    served = tl.cumsum(serve, 0)
    so_far = tl.gather(served - serve, start, 0)
    supply = tl.gather(served, tl.maximum(stop - 1, 0), 0) - so_far
    # All that is served in a block is wanted there: what is wanted before the block is what is served before it.
    met = tl.minimum(wished, supply)
    tl.store(down + WANTED * LANES + lanes, so_far + met, mask=inside)
    tl.store(down + SERVED * LANES + lanes, served, mask=inside)
    if competes > 0:
        want = met - tl.minimum(wished - wish, supply)
        tl.store(in_the_end + lanes, measure + want - serve, mask=inside)
        tl.debug_barrier()
        put_factor(sums.sizes, in_the_end, rank, factor, AHEAD, counts)


@triton.jit
def put_factor(
    sizes,  # (GROUPS,)
    held, rank,  # (PLACES,)
    factor,  # (GROUPS + 1,)
    AHEAD: tl.constexpr,
    counts,  # `Counts`
):  # fmt: skip
    """What q is multiplied by in every group: what all its parts hold in the end, over q; 0 where there is none."""
    groups = tl.arange(0, counts.GROUP_LANES)
    inside = groups < counts.GROUPS
    size = tl.load(sizes + groups, mask=inside, other=0)
    size -= tl.load(sizes + groups - 1, mask=inside & (groups > 0), other=0)
    if AHEAD:
        amount = tl.zeros([counts.GROUP_LANES], tl.int64)
        for part in tl.static_range(counts.PARTS):
            amount += tl.load(held + tl.load(rank + groups * counts.PARTS + part, mask=inside, other=0))
    else:
        amount = tl.load(held + groups, mask=inside, other=0)
    found = tl.where(size > 0, amount.to(tl.float64) / tl.maximum(size, 1).to(tl.float64), 0.0)
    tl.store(factor + groups, found, mask=groups <= counts.GROUPS)

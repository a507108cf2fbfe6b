"""How prefixes share their labels in Triton: `sharing.share` and `sharing.owned`, a prefix to a program.

A program has a lane for each place of its prefix, and one more for the point behind the last.  What lanes look up of
each other, by searches and at corners, lies in memory, in cache; there is a barrier before it is read.  Every operation
is that of torch, so that all numbers come out the same to the last bit.

Planes are arrays of one prefix: what it keeps for its children, what it works on, grids, sums of the groups, parts.
"""

from __future__ import annotations

import triton
import triton.language as tl

from otspec.verification.rules.buckets.bucket_kernels import before, halved, running_maximum

ENDS, WANTED, SERVED, WORTH, RANK = (tl.constexpr(plane) for plane in range(5))
KEPT = tl.constexpr(5)
CURVE, SIZE, MASS, HELD = (tl.constexpr(plane) for plane in range(4))
WORKED = tl.constexpr(4)
LABELS, OWN, BINNED, WINS = (tl.constexpr(plane) for plane in range(4))
GRIDS = tl.constexpr(4)
SIZES, TARGETS, RATIOS = (tl.constexpr(plane) for plane in range(3))
SUMS = tl.constexpr(3)
PART_SIZE, PART_MASS = (tl.constexpr(plane) for plane in range(2))
PARTED = tl.constexpr(2)


@triton.jit
def nearest(units):
    """`sharing.nearest`."""
    return (units + 0.5).to(tl.int64)


@triton.jit
def search(sums, keys, ENTRIES: tl.constexpr, ROUNDS: tl.constexpr):
    """`fixed_point.first_above`, but for the last entry if there is none: in memory."""
    low = tl.zeros_like(keys).to(tl.int32)
    high = low + ENTRIES
    for _ in range(ROUNDS):
        low, high = halved(sums, keys, low, high, True)
    return tl.minimum(low, ENTRIES - 1)


@triton.jit
def interpolated(sums, ends, points, place):
    """`grid.interpolate`, for points that lie in known places."""
    begin, low = before(ends, place), before(sums, place)
    width, rise = tl.load(ends + place) - begin, tl.load(sums + place) - low
    inside = points - begin
    part = (inside.to(tl.float64) / tl.maximum(width, 1).to(tl.float64) * rise.to(tl.float64)).to(tl.int64)
    return low + tl.where(inside >= width, rise, tl.minimum(tl.maximum(part, 0), rise))


@triton.jit
def chances(masses, density, inside):
    """`grid.chances`."""
    return tl.cumsum(tl.where(inside, (masses.to(tl.float64) * density).to(tl.int64), 0), 0)


@triton.jit
def last_of(values, COUNT: tl.constexpr):
    """The last of so many values, in every lane: not by a reduction, which takes much longer."""
    return tl.gather(values, tl.zeros(values.shape, tl.int32) + (COUNT - 1), 0)


@triton.jit
def add_both(one, other, more, another):
    """Two sums."""
    return one + more, other + another


@triton.jit
def two_sums(one, other, STEPS: tl.constexpr):
    """Running sums of two amounts: by one scan, as `running_maximum` has it, or each by its own."""
    if STEPS == 0:
        one, other = tl.associative_scan((one, other), 0, add_both)
    else:
        one, other = tl.cumsum(one, 0), tl.cumsum(other, 0)
    return one, other


@triton.jit
def own(
    kept, longs, amounts, group, found,
    GROUPS: tl.constexpr, PARTS: tl.constexpr, PART_LANES: tl.constexpr, LOOK: tl.constexpr, LANES: tl.constexpr,
    ROUNDS: tl.constexpr, BINS: tl.constexpr, BIN_LANES: tl.constexpr,
):  # fmt: skip
    """`sharing.owned`: the labels of a token of some group, from what its parent has kept."""
    each: tl.constexpr = PARTS if LOOK else 1
    rows: tl.constexpr = PART_LANES if LOOK else 1
    places: tl.constexpr = GROUPS * each
    ends, worth = kept + ENDS * LANES, kept + WORTH * LANES
    wanted, served, rank = kept + WANTED * LANES, kept + SERVED * LANES, kept + RANK * LANES
    lanes, parts = tl.arange(0, LANES), tl.arange(0, rows)
    inside, there = lanes < places, parts < each
    place = tl.minimum(group, GROUPS - 1) + tl.zeros_like(parts).to(tl.int64)
    if LOOK:
        place = tl.load(rank + place * PARTS + parts, mask=there, other=0)
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
    seeks = high > low
    low = tl.where(seeks, low, before(served, place))[:, None]
    high = tl.where(seeks, high, tl.load(served + place))[:, None]
    value = tl.load(worth + place).to(tl.float64, bitcast=True)[:, None]
    mine = tl.where(there, tl.load(ends + place) - before(ends, place), 0)[:, None]
    seeks = seeks[:, None]
    theirs = tl.where(seeks, serve[None, :], want[None, :])
    before_them = tl.where(seeks, serve_before[None, :], want_before[None, :])
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
    reached = interpolated(amounts, ends, points, search(ends, points, places, ROUNDS))
    # A token that owns less than a unit shares all labels evenly: it is drafted with a chance of 2**-62.
    labels = tl.where(tl.load(amounts + places - 1) > 0, reached, points)
    tl.store(found + bins, labels, mask=bins < BINS)
    return labels


@triton.jit
def draw_line(longs, ends, density, units, BINS: tl.constexpr, BIN_LANES: tl.constexpr):
    """`sharing._Line.of`: a prefix's labels end to end, as long as its children together; and the line's scale."""
    bins = tl.arange(0, BIN_LANES)
    inside = bins < BINS
    whole, total = last_of(ends, BINS), units.to(tl.float64)
    binned = (ends.to(tl.float64) * (total / whole.to(tl.float64))).to(tl.int64)
    binned = tl.where(ends == whole, units, tl.minimum(binned, units))
    tl.store(longs + BINNED * BINS + bins, binned, mask=inside)
    tl.debug_barrier()
    # From memory, so that all of it is near when it is searched.
    masses = binned - tl.load(longs + BINNED * BINS + bins - 1, mask=inside & (bins > 0), other=0)
    tl.store(longs + WINS * BINS + bins, chances(masses, density, inside), mask=inside)
    tl.debug_barrier()
    return total / tl.load(longs + WINS * BINS + BINS - 1).to(tl.float64)


@triton.jit
def worth_of(
    longs, densities, size, end, lanes, inside, scale,
    LANES: tl.constexpr, BINS: tl.constexpr, ROUNDS: tl.constexpr,
):  # fmt: skip
    """`sharing._Line.worth` of places that lie end to end.

    Each begins where the one before it ends; the first at 0, which is looked up by the last lane, as it has no place.
    """
    bins, wins = longs + BINNED * BINS, longs + WINS * BINS
    points = tl.where(inside, end, 0)
    place = search(bins, points, BINS, ROUNDS)
    reached = interpolated(wins, bins, points, place)
    down = tl.maximum(place - 1, 0)
    mine = tl.load(densities + place)
    falls = before(bins, place) >= end  # a place may end where a bin does
    high, highest = tl.where(falls, tl.load(densities + down), mine), tl.where(falls, down, place)
    earlier = (lanes + LANES - 1) % LANES
    lowest, low, from_it = tl.gather(place, earlier, 0), tl.gather(mine, earlier, 0), tl.gather(reached, earlier, 0)
    mean = (reached - from_it).to(tl.float64) / tl.maximum(size, 1).to(tl.float64)
    mean = tl.minimum(tl.maximum(mean, tl.minimum(low, high)), tl.maximum(low, high))
    return tl.where(lowest >= highest, low, mean) * scale


@triton.jit
def cut_of(
    end, target, longs, scale, weight,
    GROUPS: tl.constexpr, GROUP_LANES: tl.constexpr, FIRST: tl.constexpr, BINS: tl.constexpr, ROUNDS: tl.constexpr,
):  # fmt: skip
    """How many groups come first: those whose proposal exceeds weight * p."""
    groups = tl.arange(0, GROUP_LANES)
    bins = longs + BINNED * BINS
    won = interpolated(longs + WINS * BINS, bins, end, search(bins, end, BINS, ROUNDS)).to(tl.float64) * scale
    height = (won - weight * target.to(tl.float64)) * (2097152.0 / 4611686018427387904.0)
    height = tl.where(groups < GROUPS, tl.maximum(height, 0.0), 0.0)
    most = tl.max(height.to(tl.int32) * FIRST + (FIRST - 1 - groups))
    return tl.where(most >= FIRST, FIRST - most % FIRST, 0)


@triton.jit
def place_parts(
    item, part_size, part_mass, cut, rank, size, mass,
    PARTS: tl.constexpr, LANES: tl.constexpr, PLACES: tl.constexpr,
):  # fmt: skip
    """`sharing._places`: the rank of each part of the groups, and q and p in that order; those of CUT come first."""
    lanes = tl.arange(0, LANES)
    inside = lanes < PLACES
    first = inside & (item < cut * PARTS)
    ahead = tl.cumsum(first.to(tl.int32), 0) - first.to(tl.int32)
    place = tl.where(first, ahead, cut * PARTS + lanes - ahead)
    tl.store(rank + item, place.to(tl.int64), mask=inside)
    tl.store(size + place, part_size, mask=inside)
    tl.store(mass + place, part_mass, mask=inside)
    tl.debug_barrier()


@triton.jit
def as_point(run, rise):
    """Two numbers in single precision, as one."""
    high, low = run.to(tl.int32, bitcast=True).to(tl.int64), rise.to(tl.int32, bitcast=True).to(tl.int64)
    return (high << 32) | low


@triton.jit
def of_point(point):
    """What it was made of."""
    high, low = (point >> 32).to(tl.int32), point.to(tl.int32)
    return high.to(tl.float32, bitcast=True), low.to(tl.float32, bitcast=True)


@triton.jit
def find_corners(
    curve, places, one, other,
    LANES: tl.constexpr, STEPS: tl.constexpr, HALVINGS: tl.constexpr, NOISE: tl.constexpr, LEAST: tl.constexpr,
    LOWEST: tl.constexpr, KEYS: tl.constexpr, SHIFT: tl.constexpr, NUMBER: tl.constexpr,
):  # fmt: skip
    """`majorant.corners`, of points in memory, of which only those up to `places` are there."""
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
        width, climb = end_run - begin_run, end_rise - begin_rise
        height = width * (at_rise - begin_rise) - climb * (at_run - begin_run)
        high_above = (height > tl.maximum(NOISE * (width + climb), LEAST)) & (index <= places)
        code = (height.to(tl.int32, bitcast=True) - LOWEST) >> SHIFT
        first = segment << NUMBER
        ran_up = running_maximum(first + tl.where(high_above, code * KEYS + (KEYS - 1 - index), 0), index, STEPS)
        highest = tl.gather(ran_up, tl.maximum(end - 1, 0), 0) - first
        parted = (highest > 0) & (index > begin) & (index < end)
        corner = KEYS - 1 - highest % KEYS
        right = parted & (index >= corner)
        segment = 2 * segment + right.to(tl.int32)
        begin, end = tl.where(right, corner, begin), tl.where(parted & (index <= corner), corner, end)
    return begin, end


@triton.jit
def share(
    kept, worked, size, mass, item, sizes, end_of_group, target, longs, ends, densities, density, weight, rivals,
    factor,
    GROUPS: tl.constexpr, GROUP_LANES: tl.constexpr, FIRST: tl.constexpr, PARTS: tl.constexpr, LOOK: tl.constexpr,
    LANES: tl.constexpr, STEPS: tl.constexpr, BINS: tl.constexpr, BIN_LANES: tl.constexpr, BIN_ROUNDS: tl.constexpr,
    HALVINGS: tl.constexpr, NOISE: tl.constexpr, LEAST: tl.constexpr, LOWEST: tl.constexpr, KEYS: tl.constexpr,
    SHIFT: tl.constexpr, NUMBER: tl.constexpr,
):  # fmt: skip
    """`sharing.share`: what the children of one prefix own.

    Of its parts, or of its groups if it does not look ahead, q and p are given, and which they are; of its groups,
    running sums; of its labels, what lies up to the bins and how they win.
    """
    rank, curve, held = kept + RANK * LANES, worked + CURVE * LANES, worked + HELD * LANES
    each: tl.constexpr = PARTS if LOOK else 1
    places: tl.constexpr = GROUPS * each
    lanes = tl.arange(0, LANES)
    inside = lanes < places
    scale = draw_line(longs, ends, density, tl.load(sizes + GROUPS - 1), BINS, BIN_LANES)
    if LOOK:
        cut = cut_of(end_of_group, target, longs, scale, weight, GROUPS, GROUP_LANES, FIRST, BINS, BIN_ROUNDS)
        place_parts(item, size, mass, cut, rank, worked + SIZE * LANES, worked + MASS * LANES, PARTS, LANES, places)
        first = cut * PARTS
        size = tl.load(worked + SIZE * LANES + lanes, mask=inside, other=0)
        mass = tl.load(worked + MASS * LANES + lanes, mask=inside, other=0)
    else:
        first = 0
    end, sums_of_p = two_sums(size, mass, STEPS)
    worth = worth_of(longs, densities, size, end, lanes, inside, scale, LANES, BINS, BIN_ROUNDS)
    measure = tl.where(inside, nearest(size.to(tl.float64) * worth), 0)
    # Places of p = 0 come first: they keep what they have.
    weightless = tl.sum((inside & (sums_of_p == 0)).to(tl.int32))
    tl.store(kept + ENDS * LANES + lanes, end, mask=inside)
    tl.store(kept + WORTH * LANES + lanes, worth.to(tl.int64, bitcast=True), mask=inside)
    point = as_point(sums_of_p.to(tl.float32), tl.cumsum(measure, 0).to(tl.float32))
    tl.store(curve + lanes + 1, point, mask=inside)
    tl.store(curve, tl.zeros([], tl.int64))
    tl.debug_barrier()
    start, stop = find_corners(
        curve, places, weightless, first, LANES, STEPS, HALVINGS, NOISE, LEAST, LOWEST, KEYS, SHIFT, NUMBER
    )

    # `sharing._matched`: givers of a block hand on to earlier seekers.
    stop = tl.gather(stop, tl.minimum(lanes + 1, LANES - 1), 0)
    low_run, low_rise = of_point(tl.load(curve + start))
    high_run, high_rise = of_point(tl.load(curve + stop))
    width = high_run - low_run
    slope = tl.where(width > 0, tl.div_rn(high_rise - low_rise, tl.where(width > 0, width, 1.0)), 0.0).to(tl.float64)
    due = tl.where(width > 0, nearest(slope * mass.to(tl.float64)), measure)
    wish, surplus = tl.where(inside, tl.maximum(due - measure, 0), 0), tl.where(inside, tl.maximum(measure - due, 0), 0)
    wished, offered = two_sums(wish, surplus, STEPS)
    wished -= tl.gather(wished - wish, start, 0)
    offered -= tl.gather(offered - surplus, start, 0)
    earlier = tl.where(lanes > start, tl.minimum(wished - wish, offered - surplus), 0)
    serve = tl.where(surplus > 0, tl.minimum(wished, offered) - earlier, 0)
    served = tl.cumsum(serve, 0)
    so_far = tl.gather(served - serve, start, 0)
    supply = tl.gather(served, tl.maximum(stop - 1, 0), 0) - so_far
    # All that is served in a block is wanted there: what is wanted before the block is what is served before it.
    met = tl.minimum(wished, supply)
    tl.store(kept + WANTED * LANES + lanes, so_far + met, mask=inside)
    tl.store(kept + SERVED * LANES + lanes, served, mask=inside)
    if rivals > 0:
        want = met - tl.minimum(wished - wish, supply)
        tl.store(held + lanes, measure + want - serve, mask=inside)
        tl.debug_barrier()
        put_factor(sizes, held, rank, factor, GROUPS, GROUP_LANES, PARTS, LOOK)


@triton.jit
def put_factor(
    sizes, held, rank, factor,
    GROUPS: tl.constexpr, GROUP_LANES: tl.constexpr, PARTS: tl.constexpr, LOOK: tl.constexpr,
):  # fmt: skip
    """What q is multiplied by in every group: what all its parts hold in the end, over q; 0 where there is none."""
    groups = tl.arange(0, GROUP_LANES)
    inside = groups < GROUPS
    size = tl.load(sizes + groups, mask=inside, other=0)
    size -= tl.load(sizes + groups - 1, mask=inside & (groups > 0), other=0)
    if LOOK:
        amount = tl.zeros([GROUP_LANES], tl.int64)
        for part in tl.static_range(PARTS):
            amount += tl.load(held + tl.load(rank + groups * PARTS + part, mask=inside, other=0))
    else:
        amount = tl.load(held + groups, mask=inside, other=0)
    found = tl.where(size > 0, amount.to(tl.float64) / tl.maximum(size, 1).to(tl.float64), 0.0)
    tl.store(factor + groups, found, mask=groups <= GROUPS)

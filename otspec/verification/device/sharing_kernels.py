"""How prefixes share their labels in Triton: `sharing.share` and `sharing.owned`, a prefix to a program.

A program has a lane for each place of its prefix, and one more for the point behind the last.  What lanes look up of
each other, by searches and at corners, lies in memory, in cache; there is a barrier before it is read.  Every operation
is that of torch, so that all numbers come out the same to the last bit.

Planes are arrays of one prefix: what it keeps for its children, what it works on, grids, densities, sums of the groups.
"""

from __future__ import annotations

import triton
import triton.language as tl

from otspec.verification.device.bucket_kernels import before, halved, running_maximum, to_nearest

ENDS, WANTED, SERVED, WORTH, RANK = (tl.constexpr(plane) for plane in range(5))
KEPT = tl.constexpr(5)
RUN, RISE, SIZE, MASS, HELD = (tl.constexpr(plane) for plane in range(5))
WORKED = tl.constexpr(5)
LABELS, OWN, BINNED, WINS = (tl.constexpr(plane) for plane in range(4))
GRIDS = tl.constexpr(4)
DENSITY, OWN_DENSITY, LINE = (tl.constexpr(plane) for plane in range(3))
DENSITIES = tl.constexpr(3)
SIZES, TARGETS, RATIOS = (tl.constexpr(plane) for plane in range(3))
SUMS = tl.constexpr(3)


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
    """`grid.chances`, as masses that are still to be added up."""
    top = tl.max(tl.where(inside & (masses > 0), density, 0.0))
    scaled = tl.where(top > 0, tl.minimum(density / tl.where(top > 0, top, 1.0), 1.0), 1.0)
    return tl.where(inside, (masses.to(tl.float64) * scaled).to(tl.int64), 0), scaled


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
    GROUPS: tl.constexpr, PARTS: tl.constexpr, LOOK: tl.constexpr, LANES: tl.constexpr, ROUNDS: tl.constexpr,
    BINS: tl.constexpr, BIN_LANES: tl.constexpr,
):  # fmt: skip
    """`sharing.owned`: the labels of a token of some group, from what its parent has kept."""
    each: tl.constexpr = PARTS if LOOK else 1
    places: tl.constexpr = GROUPS * each
    ends, worth = kept + ENDS * LANES, kept + WORTH * LANES
    wanted, served, rank = kept + WANTED * LANES, kept + SERVED * LANES, kept + RANK * LANES
    lanes = tl.arange(0, LANES)
    inside = lanes < places
    later = inside & (lanes > 0)
    group = tl.minimum(group, GROUPS - 1)
    size = tl.load(ends + lanes, mask=inside, other=0) - tl.load(ends + lanes - 1, mask=later, other=0)
    here = tl.load(worth + lanes, mask=inside, other=0).to(tl.float64, bitcast=True)
    want, want_before = tl.load(wanted + lanes, mask=inside, other=0), tl.load(wanted + lanes - 1, mask=later, other=0)
    serve, serve_before = (
        tl.load(served + lanes, mask=inside, other=0),
        tl.load(served + lanes - 1, mask=later, other=0),
    )
    amount = tl.zeros([LANES], tl.int64)
    for part in tl.static_range(each):
        place = group
        if LOOK:
            place = tl.load(rank + group * PARTS + part)
        low, high = before(wanted, place), tl.load(wanted + place)
        seeks = high > low
        low = tl.where(seeks, low, before(served, place))
        high = tl.where(seeks, high, tl.load(served + place))
        theirs, before_them = tl.where(seeks, serve, want), tl.where(seeks, serve_before, want_before)
        moved = tl.maximum(tl.minimum(theirs, high) - tl.maximum(before_them, low), 0)
        gap = tl.abs(here - tl.load(worth + place).to(tl.float64, bitcast=True))
        trades = (moved > 0) & (gap > 0)
        swapped = tl.where(trades, moved.to(tl.float64) / tl.where(trades, gap, 1.0), 0.0)
        mine = tl.load(ends + place) - before(ends, place)
        swapped = tl.minimum(swapped, tl.minimum(size, mine).to(tl.float64))
        swapped = to_nearest(swapped).to(tl.int64)
        amount += swapped + tl.where(lanes == place, tl.maximum(mine - tl.sum(swapped), 0), 0)
    tl.store(amounts + lanes, tl.cumsum(amount, 0), mask=inside)
    tl.debug_barrier()
    bins = tl.arange(0, BIN_LANES)
    points = tl.load(longs + BINNED * BINS + bins, mask=bins < BINS, other=0)
    reached = interpolated(amounts, ends, points, search(ends, points, places, ROUNDS))
    last = tl.sum(tl.where(bins == BINS - 1, reached, 0))
    # A token that owns less than a unit shares all labels evenly: it is drafted with a chance of 2**-62.
    tl.store(found + bins, tl.where(last > 0, reached, points), mask=bins < BINS)


@triton.jit
def draw_line(longs, floats, units, BINS: tl.constexpr, BIN_LANES: tl.constexpr):
    """`sharing._Line.of`: a prefix's labels end to end, as long as its children together; all that wins there."""
    bins = tl.arange(0, BIN_LANES)
    inside = bins < BINS
    ends = tl.load(longs + OWN * BINS + bins, mask=inside, other=0)
    whole = tl.max(ends)
    binned = (ends.to(tl.float64) * (units.to(tl.float64) / whole.to(tl.float64))).to(tl.int64)
    binned = tl.where(ends == whole, units, tl.minimum(binned, units))
    masses = binned - tl.where(bins > 0, tl.gather(binned, tl.maximum(bins - 1, 0), 0), 0)
    density = tl.load(floats + OWN_DENSITY * BINS + bins, mask=inside, other=0.0)
    wins, scaled = chances(masses, density, inside)
    all_wins = tl.sum(wins).to(tl.float64)
    tl.store(longs + BINNED * BINS + bins, binned, mask=inside)
    tl.store(longs + WINS * BINS + bins, tl.cumsum(wins, 0), mask=inside)
    tl.store(floats + LINE * BINS + bins, scaled / (all_wins / units.to(tl.float64)), mask=inside)
    tl.debug_barrier()
    return all_wins


@triton.jit
def worth_of(
    longs, floats, size, end, lanes, inside, all_wins, total,
    LANES: tl.constexpr, BINS: tl.constexpr, ROUNDS: tl.constexpr,
):  # fmt: skip
    """`sharing._Line.worth` of places that lie end to end.

    Each begins where the one before it ends; the first at 0, which is looked up by the last lane, as it has no place.
    """
    bins, wins, density = longs + BINNED * BINS, longs + WINS * BINS, floats + LINE * BINS
    points = tl.where(inside, end, 0)
    place = search(bins, points, BINS, ROUNDS)
    reached = interpolated(wins, bins, points, place)
    highest = tl.where(before(bins, place) >= end, tl.maximum(place - 1, 0), place)
    earlier = (lanes + LANES - 1) % LANES
    lowest, rise = tl.gather(place, earlier, 0), reached - tl.gather(reached, earlier, 0)
    low, high = tl.load(density + lowest), tl.load(density + highest)
    mean = rise.to(tl.float64) / all_wins * total / tl.maximum(size, 1).to(tl.float64)
    mean = tl.minimum(tl.maximum(mean, tl.minimum(low, high)), tl.maximum(low, high))
    return tl.where(lowest >= highest, low, mean)


@triton.jit
def cut_of(
    sizes, targets, longs, all_wins, weight,
    GROUPS: tl.constexpr, GROUP_LANES: tl.constexpr, BINS: tl.constexpr, ROUNDS: tl.constexpr,
):  # fmt: skip
    """How many groups come first: those whose proposal exceeds weight * p."""
    groups = tl.arange(0, GROUP_LANES)
    inside = groups < GROUPS
    end = tl.load(sizes + groups, mask=inside, other=0)
    bins = longs + BINNED * BINS
    won = interpolated(longs + WINS * BINS, bins, end, search(bins, end, BINS, ROUNDS)).to(tl.float64) / all_wins
    mass = tl.load(targets + groups, mask=inside, other=0).to(tl.float64) / 4611686018427387904.0
    height = tl.where(inside, won - weight * mass, -float("inf"))
    most, at = tl.max(height, axis=0, return_indices=True)
    return tl.where(most > 0, at + 1, 0)


@triton.jit
def place_parts(
    sizes, targets, order, cut, spread, rank, size, mass,
    GROUPS: tl.constexpr, PARTS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """`sharing._places`: the rank of each part of the groups, and q and p in that order; CUT groups come first."""
    lanes = tl.arange(0, LANES)
    inside = lanes < GROUPS * PARTS
    item = tl.load(order + lanes, mask=inside, other=0)
    first = inside & (item < cut * PARTS)
    ahead = tl.cumsum(first.to(tl.int32), 0) - first.to(tl.int32)
    place = tl.where(first, ahead, cut * PARTS + lanes - ahead)
    group, part = item // PARTS, item % PARTS
    q = tl.load(sizes + group) - before(sizes, group)
    p = (tl.load(targets + group) - before(targets, group)).to(tl.float64) * tl.load(spread + part) / PARTS
    tl.store(rank + item, place.to(tl.int64), mask=inside)
    tl.store(size + place, (q + part) // PARTS, mask=inside)
    tl.store(mass + place, to_nearest(p).to(tl.int64), mask=inside)
    tl.debug_barrier()


@triton.jit
def slope_between(run, rise, begin, end):
    """Of chords, and what they run; 0 where one is upright."""
    width = tl.load(run + end) - tl.load(run + begin)
    height = (tl.load(rise + end) - tl.load(rise + begin)).to(tl.float64)
    return tl.where(width > 0, height / tl.maximum(width, 1).to(tl.float64), 0.0), width


@triton.jit
def find_corners(
    run, rise, places, one, other,
    LANES: tl.constexpr, STEPS: tl.constexpr, HALVINGS: tl.constexpr, FLAT: tl.constexpr,
):  # fmt: skip
    """`majorant.corners`: of every point of a curve, the corners around it, or itself; two are known, and the ends.

    Points of a segment are lanes side by side, and segments ascend: a running maximum of numbers that begin with the
    segment has at its last point the highest of them.
    """
    index = tl.arange(0, LANES)
    low, high = tl.minimum(one, other), tl.maximum(one, other)
    begin = tl.where(index < low, 0, tl.where(index < high, low, tl.where(index < places, high, places)))
    end = tl.where(index <= low, low, tl.where(index <= high, high, places))
    end = tl.where(index == 0, 0, end)
    at_run, at_rise = tl.load(run + tl.minimum(index, places)), tl.load(rise + tl.minimum(index, places))
    for _ in range(HALVINGS):
        begin_run, begin_rise = tl.load(run + begin), tl.load(rise + begin)
        width = (tl.load(run + end) - begin_run).to(tl.float64)
        climb = (tl.load(rise + end) - begin_rise).to(tl.float64)
        height = width * (at_rise - begin_rise).to(tl.float64) - climb * (at_run - begin_run).to(tl.float64)
        high_above = (height > FLAT * width) & (index <= places)
        # The segment, the height in single precision, and who comes first: 11 + 31 + 11 bits for 2048 lanes.
        key = height.to(tl.float32).to(tl.int32, bitcast=True).to(tl.int64) * LANES + (LANES - 1 - index)
        segment = begin.to(tl.int64) * LANES << 31
        ran_up = running_maximum(segment + tl.where(high_above, key, 0), index, STEPS)
        highest = tl.gather(ran_up, tl.maximum(end - 1, 0), 0) - segment
        parted = (highest > 0) & (index > begin)
        corner = LANES - 1 - (highest % LANES).to(tl.int32)
        begin, end = (
            tl.where(parted & (index >= corner), corner, begin),
            tl.where(parted & (index <= corner), corner, end),
        )
    return begin, end


@triton.jit
def share(
    kept, worked, sums, order, longs, floats, weight, rivals, factor, spread,
    GROUPS: tl.constexpr, GROUP_LANES: tl.constexpr, PARTS: tl.constexpr, LOOK: tl.constexpr, LANES: tl.constexpr,
    STEPS: tl.constexpr, BINS: tl.constexpr, BIN_LANES: tl.constexpr, BIN_ROUNDS: tl.constexpr,
    HALVINGS: tl.constexpr, FLAT: tl.constexpr,
):  # fmt: skip
    """`sharing.share`: what the children of one prefix own."""
    sizes, targets = sums + SIZES * GROUPS, sums + TARGETS * GROUPS
    rank, run, rise, held = kept + RANK * LANES, worked + RUN * LANES, worked + RISE * LANES, worked + HELD * LANES
    each: tl.constexpr = PARTS if LOOK else 1
    places: tl.constexpr = GROUPS * each
    lanes = tl.arange(0, LANES)
    inside = lanes < places

    units = tl.load(sizes + GROUPS - 1)
    total = units.to(tl.float64)
    all_wins = draw_line(longs, floats, units, BINS, BIN_LANES)
    if LOOK:
        cut = cut_of(sizes, targets, longs, all_wins, weight, GROUPS, GROUP_LANES, BINS, BIN_ROUNDS)
        size, mass = worked + SIZE * LANES, worked + MASS * LANES
        place_parts(sizes, targets, order, cut, spread, rank, size, mass, GROUPS, PARTS, LANES)
        first = cut * PARTS
        size, mass = tl.load(size + lanes, mask=inside, other=0), tl.load(mass + lanes, mask=inside, other=0)
        end, sums_of_p = two_sums(size, mass, STEPS)
    else:
        first = 0
        end = tl.load(sizes + lanes, mask=inside, other=0)
        sums_of_p = tl.load(targets + lanes, mask=inside, other=0)
        size = end - tl.load(sizes + lanes - 1, mask=inside & (lanes > 0), other=0)
        mass = sums_of_p - tl.load(targets + lanes - 1, mask=inside & (lanes > 0), other=0)
    worth = worth_of(longs, floats, size, end, lanes, inside, all_wins, total, LANES, BINS, BIN_ROUNDS)
    measure = tl.where(inside, to_nearest(size.to(tl.float64) * worth).to(tl.int64), 0)
    weightless = tl.sum(
        (inside & (sums_of_p == 0)).to(tl.int32)
    )  # places of p = 0 come first: they keep what they have
    tl.store(kept + ENDS * LANES + lanes, end, mask=inside)
    tl.store(kept + WORTH * LANES + lanes, worth.to(tl.int64, bitcast=True), mask=inside)
    tl.store(run + lanes + 1, sums_of_p, mask=inside)
    tl.store(rise + lanes + 1, tl.cumsum(measure, 0), mask=inside)
    tl.store(run, tl.zeros([], tl.int64))
    tl.store(rise, tl.zeros([], tl.int64))
    tl.debug_barrier()
    start, stop = find_corners(run, rise, places, weightless, first, LANES, STEPS, HALVINGS, FLAT)

    # `sharing._matched`: givers of a block hand on to earlier seekers.
    stop = tl.gather(stop, tl.minimum(lanes + 1, LANES - 1), 0)
    slope, width = slope_between(run, rise, start, stop)
    due = tl.where(width > 0, to_nearest(slope * mass.to(tl.float64)).to(tl.int64), measure)
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

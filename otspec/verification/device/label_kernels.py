"""Labels on a grid in Triton: `sharing`, `grid` and `nested`, a prefix to a program and a level to a launch.

What does not depend on labels is done for all prefixes together: groups without tokens are left out, and parts of
groups are merged.  Numbers that are more than registers hold stay in memory, in cache, and programs go over them by
tiles, carrying what ran up so far; where a pass reads what other lanes have written, there is a barrier before it.
Every operation is that of torch, so that all numbers come out the same to the last bit.

Planes are the arrays of one prefix: what it keeps for its children, what it works on, grids, densities, sums, numbers.
"""

from __future__ import annotations

import triton
import triton.language as tl

from otspec.verification.device.bucket_kernels import before, running_maximum, to_nearest

ENDS, WANTED, SERVED, WORTH, RANK = (tl.constexpr(plane) for plane in range(5))
KEPT = tl.constexpr(5)
RUN, RISE, LEFT, RIGHT, BEST, WISHED, OFFERED = (tl.constexpr(plane) for plane in (0, 1, 2, 3, 4, 4, 5))
WORKED = tl.constexpr(7)
LABELS, OWN, BINNED, WINS = (tl.constexpr(plane) for plane in range(4))
GRIDS = tl.constexpr(4)
DENSITY, OWN_DENSITY, LINE = (tl.constexpr(plane) for plane in range(3))
DENSITIES = tl.constexpr(3)
SIZES, TARGETS, RATIOS = (tl.constexpr(plane) for plane in range(3))
SUMS = tl.constexpr(3)
MEMBER, PLACE, ORDER = (tl.constexpr(plane) for plane in range(3))
LOW_HALF = tl.constexpr(4294967295)


@triton.jit
def search(sums, keys, entries, ROUNDS: tl.constexpr, ABOVE: tl.constexpr):
    """`fixed_point.first_above`, or `first_reaching`, but for the last entry if there is none: in memory."""
    low = tl.zeros_like(keys).to(tl.int32)
    high = low + entries
    for _ in range(ROUNDS):
        middle = (low + high) >> 1
        value = tl.load(sums + tl.minimum(middle, entries - 1))
        beyond = ((value < keys) | ((value == keys) & ABOVE)) & (low < high)
        high = tl.where(beyond, high, tl.minimum(middle, high))
        low = tl.where(beyond, middle + 1, low)
    return tl.minimum(low, entries - 1)


@triton.jit
def interpolated(sums, ends, points, place):
    """`grid.interpolate`, for points that lie in known places."""
    begin, low = before(ends, place), before(sums, place)
    width, rise = tl.load(ends + place) - begin, tl.load(sums + place) - low
    inside = points - begin
    part = (inside.to(tl.float64) / tl.maximum(width, 1).to(tl.float64) * rise.to(tl.float64)).to(tl.int64)
    return low + tl.where(inside >= width, rise, tl.minimum(tl.maximum(part, 0), rise))


@triton.jit
def powers(base, count, BITS: tl.constexpr):
    """`measures.power` of a number of factors that differs from lane to lane, of BITS binary digits at most."""
    result = base
    begun = count < 0
    for i in range(BITS):
        one = ((count >> (BITS - 1 - i)) & 1) == 1
        result = tl.where(begun, result * result, result)
        result = tl.where(begun & one, result * base, result)
        begun = begun | one
    return result


@triton.jit
def lay_out(
    target, size, stride, children, counts, sums, ids, spread,
    GROUPS: tl.constexpr, PARTS: tl.constexpr, LOOK: tl.constexpr, TILE: tl.constexpr, STEPS: tl.constexpr,
    ROUNDS: tl.constexpr,
):  # fmt: skip
    """The groups of each prefix that hold tokens, and for look-ahead their parts in ascending order."""
    slot = tl.program_id(0).to(tl.int64)
    if tl.load(children + slot) > 0:
        target += slot * stride
        size += slot * stride
        sums += slot * SUMS * GROUPS
        ids += slot * (ORDER + PARTS) * GROUPS
        lanes = tl.arange(0, TILE)
        count = tl.zeros([], tl.int32)
        most = tl.zeros([], tl.int64)
        all_sizes, all_targets = most, most
        for start in range(0, GROUPS, TILE):
            groups = start + lanes
            inside = groups < GROUPS
            mine = tl.load(size + groups, mask=inside, other=0)
            there = tl.load(target + groups, mask=inside, other=0)
            holds = mine > 0
            place = count + tl.cumsum(holds.to(tl.int32), 0) - 1
            ratio = there.to(tl.float64) / tl.where(holds, mine, 1).to(tl.float64)
            ratio = tl.where(holds, ratio, 0.0).to(tl.int64, bitcast=True)
            ratio = tl.maximum(running_maximum(ratio, lanes, STEPS), most)
            tl.store(ids + MEMBER * GROUPS + place, groups, mask=holds)
            tl.store(ids + PLACE * GROUPS + groups, tl.maximum(place, 0), mask=inside)
            tl.store(sums + SIZES * GROUPS + place, all_sizes + tl.cumsum(mine, 0), mask=holds)
            tl.store(sums + TARGETS * GROUPS + place, all_targets + tl.cumsum(there, 0), mask=holds)
            tl.store(sums + RATIOS * GROUPS + place, ratio, mask=holds)
            count += tl.sum(holds.to(tl.int32))
            all_sizes += tl.sum(mine)
            all_targets += tl.sum(there)
            most = tl.max(ratio)
        tl.store(counts + slot, count)
        tl.debug_barrier()

        # Parts ascend with their groups: searches find how many of each kind come first.
        tiles = (count + TILE - 1) // TILE if LOOK else 0
        for item in range(PARTS * tiles):
            part = item % PARTS
            groups = item // PARTS * TILE + lanes
            inside = groups < count
            ratio = tl.load(sums + RATIOS * GROUPS + groups, mask=inside, other=0).to(tl.float64, bitcast=True)
            key = (ratio * tl.load(spread + part)).to(tl.int64, bitcast=True) >> 1
            rank = tl.zeros([TILE], tl.int32)
            for other in range(PARTS):
                factor = tl.load(spread + other)
                low = tl.zeros([TILE], tl.int32)
                high = low + count
                for _ in range(ROUNDS):
                    middle = (low + high) >> 1
                    theirs = tl.load(sums + RATIOS * GROUPS + tl.minimum(middle, count - 1))
                    theirs = (theirs.to(tl.float64, bitcast=True) * factor).to(tl.int64, bitcast=True) >> 1
                    tied = (middle < groups) | ((middle == groups) & (other < part))
                    first = ((theirs < key) | ((theirs == key) & tied)) & (low < high)
                    high = tl.where(first, high, tl.minimum(middle, high))
                    low = tl.where(first, middle + 1, low)
                rank += low
            tl.store(ids + ORDER * GROUPS + rank, groups * PARTS + part, mask=inside)


@triton.jit
def own(
    kept, ids, count, longs, group, amounts, found,
    GROUPS: tl.constexpr, PLACES: tl.constexpr, PARTS: tl.constexpr, LOOK: tl.constexpr, PART_LANES: tl.constexpr,
    BINS: tl.constexpr, BIN_LANES: tl.constexpr, ROUNDS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """`sharing.owned`: the labels of a token of some group, from what its parent has kept."""
    ends, worth = kept + ENDS * PLACES, kept + WORTH * PLACES
    wanted, served, rank = kept + WANTED * PLACES, kept + SERVED * PLACES, kept + RANK * PLACES
    each: tl.constexpr = PARTS if LOOK else 1
    parts = tl.arange(0, PART_LANES)
    lanes = tl.arange(0, TILE)
    mine = tl.load(ids + PLACE * GROUPS + tl.minimum(group, GROUPS - 1))
    if LOOK:
        count = count * PARTS
        places = tl.load(rank + mine * PARTS + parts, mask=parts < PARTS, other=0)
    else:
        places = mine + tl.zeros([PART_LANES], tl.int64)
    moved_from = tl.zeros([PART_LANES], tl.int64)
    for start in range(0, count, TILE):
        index = start + lanes
        inside = index < count
        end = tl.load(ends + index, mask=inside, other=0)
        size = end - tl.load(ends + index - 1, mask=inside & (index > 0), other=0)
        here = tl.load(worth + index, mask=inside, other=0).to(tl.float64, bitcast=True)
        want = tl.load(wanted + index, mask=inside, other=0)
        want_before = tl.load(wanted + index - 1, mask=inside & (index > 0), other=0)
        serve = tl.load(served + index, mask=inside, other=0)
        serve_before = tl.load(served + index - 1, mask=inside & (index > 0), other=0)
        amount = tl.zeros([TILE], tl.int64)
        for part in range(each):
            place = tl.sum(tl.where(parts == part, places, 0))
            low, high = before(wanted, place), tl.load(wanted + place)
            seeks = high > low
            low = tl.where(seeks, low, before(served, place))
            high = tl.where(seeks, high, tl.load(served + place))
            theirs, before_them = tl.where(seeks, serve, want), tl.where(seeks, serve_before, want_before)
            moved = tl.maximum(tl.minimum(theirs, high) - tl.maximum(before_them, low), 0)
            gap = tl.abs(here - tl.load(worth + place).to(tl.float64, bitcast=True))
            trades = (moved > 0) & (gap > 0)
            swapped = tl.where(trades, moved.to(tl.float64) / tl.where(trades, gap, 1.0), 0.0)
            most = tl.minimum(size, tl.load(ends + place) - before(ends, place))
            swapped = to_nearest(tl.minimum(swapped, most.to(tl.float64))).to(tl.int64)
            amount += swapped
            moved_from += tl.where(parts == part, tl.sum(swapped), 0)
        tl.store(amounts + index, amount, mask=inside)
    tl.debug_barrier()
    size = tl.load(ends + places) - before(ends, places)
    stays = tl.where(parts < each, tl.maximum(size - moved_from, 0), 0)
    ran = tl.zeros([], tl.int64)
    for start in range(0, count, TILE):
        index = start + lanes
        inside = index < count
        amount = tl.load(amounts + index, mask=inside, other=0)
        for part in range(each):
            place = tl.sum(tl.where(parts == part, places, 0))
            amount += tl.where(index == place, tl.sum(tl.where(parts == part, stays, 0)), 0)
        tl.store(amounts + index, ran + tl.cumsum(amount, 0), mask=inside)
        ran += tl.sum(amount)
    tl.debug_barrier()
    bins = tl.arange(0, BIN_LANES)
    points = tl.load(longs + BINNED * BINS + bins, mask=bins < BINS, other=0)
    reached = interpolated(amounts, ends, points, search(ends, points, count, ROUNDS, True))
    last = tl.sum(tl.where(bins == BINS - 1, reached, 0))
    # A token that owns less than a unit shares all labels evenly: it is drafted with a chance of 2**-62.
    tl.store(found + bins, tl.where(last > 0, reached, points), mask=bins < BINS)


@triton.jit
def chances(masses, density, inside):
    """`grid.chances`, as masses that are still to be added up."""
    top = tl.max(tl.where(inside & (masses > 0), density, 0.0))
    scaled = tl.where(top > 0, tl.minimum(density / tl.where(top > 0, top, 1.0), 1.0), 1.0)
    return tl.where(inside, (masses.to(tl.float64) * scaled).to(tl.int64), 0), scaled


@triton.jit
def branch(
    longs, floats, children,
    BITS: tl.constexpr, BINS: tl.constexpr, BIN_LANES: tl.constexpr, ROUNDS: tl.constexpr,
):  # fmt: skip
    """`grid.branch`: the labels of any one of a slot's children; no slot of the level has several if BITS is 1."""
    bins = tl.arange(0, BIN_LANES)
    inside = bins < BINS
    ends = tl.load(longs + LABELS * BINS + bins, mask=inside, other=0)
    density = tl.load(floats + DENSITY * BINS + bins, mask=inside, other=0.0)
    if BITS > 1:  # noqa: SIM102  # known when it is compiled, unlike what follows
        if children > 1:
            masses = ends - tl.load(longs + LABELS * BINS + bins - 1, mask=inside & (bins > 0), other=0)
            wins, _ = chances(masses, density, inside)
            tl.store(longs + WINS * BINS + bins, tl.cumsum(wins, 0), mask=inside)
            tl.debug_barrier()
            whole = tl.max(ends)
            steps = tl.minimum((bins + 1).to(tl.float64) / BINS, 1.0)
            points = (powers(steps, children + tl.zeros_like(bins), BITS) * whole.to(tl.float64)).to(tl.int64)
            points = tl.minimum(points, whole)
            place = search(longs + LABELS * BINS, points, BINS, ROUNDS, True)
            reached = interpolated(longs + WINS * BINS, longs + LABELS * BINS, points, place)
            tl.store(longs + BINNED * BINS + bins, reached, mask=inside)
            tl.debug_barrier()
            earlier = tl.load(longs + BINNED * BINS + bins - 1, mask=inside & (bins > 0), other=0)
            density = (reached - earlier).to(tl.float64)
            ends = (bins + 1).to(tl.int64) * (4611686018427387904 // BINS)
            tl.debug_barrier()
    tl.store(longs + OWN * BINS + bins, ends, mask=inside)
    tl.store(floats + OWN_DENSITY * BINS + bins, density, mask=inside)
    tl.debug_barrier()


@triton.jit
def to_bins(ends, whole, total):
    """Where bins end along the places of a prefix, in units."""
    found = (ends.to(tl.float64) / whole.to(tl.float64) * total.to(tl.float64)).to(tl.int64)
    return tl.where(ends == whole, total, tl.minimum(found, total))


@triton.jit
def draw_line(
    longs, floats, units,
    BINS: tl.constexpr, BIN_LANES: tl.constexpr,
):  # fmt: skip
    """`sharing._Line.of`: a prefix's labels end to end, as long as its children together.

    All that wins there comes out, and the bin that the line begins in.
    """
    bins = tl.arange(0, BIN_LANES)
    inside = bins < BINS
    ends = tl.load(longs + OWN * BINS + bins, mask=inside, other=0)
    earlier = tl.load(longs + OWN * BINS + bins - 1, mask=inside & (bins > 0), other=0)
    whole = tl.max(ends)
    binned = to_bins(ends, whole, units)
    masses = binned - tl.where(bins > 0, to_bins(earlier, whole, units), 0)
    density = tl.load(floats + OWN_DENSITY * BINS + bins, mask=inside, other=0.0)
    wins, scaled = chances(masses, density, inside)
    all_wins = tl.sum(wins).to(tl.float64)
    tl.store(longs + BINNED * BINS + bins, binned, mask=inside)
    tl.store(longs + WINS * BINS + bins, tl.cumsum(wins, 0), mask=inside)
    tl.store(floats + LINE * BINS + bins, scaled / (all_wins / units.to(tl.float64)), mask=inside)
    tl.debug_barrier()
    return all_wins, tl.minimum(tl.sum((inside & (binned <= 0)).to(tl.int32)), BINS - 1)


@triton.jit
def worth_of(
    longs, floats, begin, end, all_wins, total, place_before, reached_before,
    BINS: tl.constexpr, ROUNDS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """`sharing._Line.worth` of a tile of places, end to end; and the bin and the wins where the last of them ends."""
    bins, wins, density = longs + BINNED * BINS, longs + WINS * BINS, floats + LINE * BINS
    lanes = tl.arange(0, TILE)
    last = tl.maximum(lanes - 1, 0)
    place = search(bins, end, BINS, ROUNDS, True)
    reached = interpolated(wins, bins, end, place)
    lowest = tl.where(lanes > 0, tl.gather(place, last, 0), place_before)
    rise = reached - tl.where(lanes > 0, tl.gather(reached, last, 0), reached_before)
    # A place may end where a bin does, and then ends in the first bin that does.
    highest = place
    at_ends = (place > 0) & (tl.load(bins + tl.maximum(place - 1, 0)) >= end)
    if tl.max(at_ends.to(tl.int32)) > 0:
        highest = search(bins, tl.maximum(end - 1, 0), BINS, ROUNDS, True)
    low, high = tl.load(density + lowest), tl.load(density + highest)
    mean = rise.to(tl.float64) / all_wins * total / tl.maximum(end - begin, 1).to(tl.float64)
    mean = tl.minimum(tl.maximum(mean, tl.minimum(low, high)), tl.maximum(low, high))
    return tl.where(lowest >= highest, low, mean), tl.max(place), tl.max(reached)


@triton.jit
def cut_of(
    sizes, targets, count, longs, floats, all_wins, total, begins, weight,
    BINS: tl.constexpr, ROUNDS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """How many groups come first: those whose proposal exceeds weight * p."""
    lanes = tl.arange(0, TILE)
    cut = tl.zeros([], tl.int32)
    highest = tl.zeros([], tl.float64)
    ran = tl.zeros([], tl.int64)
    place, reached = begins, ran
    for start in range(0, count, TILE):
        groups = start + lanes
        inside = groups < count
        end = tl.load(sizes + groups, mask=inside, other=0)
        begin = tl.load(sizes + groups - 1, mask=inside & (groups > 0), other=0)
        mean, place, reached = worth_of(
            longs, floats, begin, end, all_wins, total, place, reached, BINS, ROUNDS, TILE
        )  # fmt: skip
        measure = tl.where(inside, to_nearest((end - begin).to(tl.float64) * mean).to(tl.int64), 0)
        mass = tl.load(targets + groups, mask=inside, other=0).to(tl.float64) / 4611686018427387904.0
        height = (ran + tl.cumsum(measure, 0)).to(tl.float64) / total - weight * mass
        most, at = tl.max(tl.where(inside, height, -float("inf")), axis=0, return_indices=True)
        cut = tl.where(most > highest, start + at + 1, cut)
        highest = tl.maximum(highest, most)
        ran += tl.sum(measure)
    return cut


@triton.jit
def place_parts(
    sizes, targets, order, count, cut, spread, rank, size, mass,
    PARTS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """`sharing._places`: the rank of each part of the groups, and q and p in that order; CUT groups come first."""
    lanes = tl.arange(0, TILE)
    early = tl.zeros([], tl.int32)
    for start in range(0, count * PARTS, TILE):
        index = start + lanes
        inside = index < count * PARTS
        item = tl.load(order + index, mask=inside, other=0)
        first = inside & (item < cut * PARTS)
        ahead = early + tl.cumsum(first.to(tl.int32), 0) - first.to(tl.int32)
        early += tl.sum(first.to(tl.int32))
        place = tl.where(first, ahead, cut * PARTS + index - ahead)
        group, part = item // PARTS, item % PARTS
        q = tl.load(sizes + group) - before(sizes, group)
        p = (tl.load(targets + group) - before(targets, group)).to(tl.float64) * tl.load(spread + part) / PARTS
        tl.store(rank + item, place.to(tl.int64), mask=inside)
        tl.store(size + place, (q + part) // PARTS, mask=inside)
        tl.store(mass + place, to_nearest(p).to(tl.int64), mask=inside)
    tl.debug_barrier()


@triton.jit
def draw_curve(
    sizes, masses, places, longs, floats, all_wins, total, begins, ends, worth, run, rise,
    LOOK: tl.constexpr, BINS: tl.constexpr, ROUNDS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Where places end, what they are worth, and measure over mass, from (0, 0); how many have no mass before them.

    Sizes and masses are those of the places with look-ahead, and running sums without.
    """
    lanes = tl.arange(0, TILE)
    nothing = tl.zeros([], tl.int64)
    ended, ran, risen = nothing, nothing, nothing
    place, reached = begins, nothing
    weightless = tl.zeros([], tl.int32)
    for start in range(0, places, TILE):
        index = start + lanes
        inside = index < places
        end = tl.load(sizes + index, mask=inside, other=0)
        mass = tl.load(masses + index, mask=inside, other=0)
        if LOOK:
            begin = ended + tl.cumsum(end, 0) - end
            ended += tl.sum(end)
            end += begin
            sums = ran + tl.cumsum(mass, 0)
            ran += tl.sum(mass)
        else:
            begin = tl.load(sizes + index - 1, mask=inside & (index > 0), other=0)
            sums = mass
        mean, place, reached = worth_of(
            longs, floats, begin, end, all_wins, total, place, reached, BINS, ROUNDS, TILE
        )  # fmt: skip
        measure = tl.where(inside, to_nearest((end - begin).to(tl.float64) * mean).to(tl.int64), 0)
        weightless += tl.sum((inside & (sums == 0)).to(tl.int32))
        tl.store(ends + index, end, mask=inside)
        tl.store(worth + index, mean.to(tl.int64, bitcast=True), mask=inside)
        tl.store(run + index + 1, sums, mask=inside)
        tl.store(rise + index + 1, risen + tl.cumsum(measure, 0), mask=inside)
        risen += tl.sum(measure)
    tl.store(run, nothing)
    tl.store(rise, nothing)
    tl.debug_barrier()
    return weightless


@triton.jit
def slope_between(run, rise, begin, end):
    """Of chords, and what they run; 0 where one is upright."""
    width = tl.load(run + end) - tl.load(run + begin)
    height = (tl.load(rise + end) - tl.load(rise + begin)).to(tl.float64)
    return tl.where(width > 0, height / tl.maximum(width, 1).to(tl.float64), 0.0), width


@triton.jit
def find_corners(
    run, rise, left, right, best, places, one, other,
    PLACES: tl.constexpr, HALVINGS: tl.constexpr, FLAT: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """`majorant.corners`: of every point of a curve, the corners around it, or itself; two are known, and the ends.

    Every corner is told the highest point above the segment that begins there, which at the next round parts it.
    """
    lanes = tl.arange(0, TILE)
    none = tl.zeros([TILE], tl.int64)
    low, high = tl.minimum(one, other), tl.maximum(one, other)
    for start in range(0, places + 1, TILE):
        index = start + lanes
        inside = index <= places
        begin = tl.where(index < low, 0, tl.where(index < high, low, tl.where(index < places, high, places)))
        end = tl.where(index <= low, low, tl.where(index <= high, high, places))
        tl.store(left + index, begin.to(tl.int64), mask=inside)
        tl.store(right + index, tl.where(index == 0, 0, end).to(tl.int64), mask=inside)
        tl.store(best + index, none, mask=inside)
        tl.store(best + 2 * PLACES + index, none, mask=inside)
    tl.debug_barrier()
    for halving in range(HALVINGS + 1):
        last, now = best + (halving + 2) % 3 * PLACES, best + halving % 3 * PLACES
        following = best + (halving + 1) % 3 * PLACES
        for start in range(0, places + 1, TILE):
            index = (start + lanes).to(tl.int64)
            inside = index <= places
            begin = tl.load(left + index, mask=inside, other=0)
            end = tl.load(right + index, mask=inside, other=0)
            found = tl.load(last + begin)
            parted = (found > 0) & (index > begin)
            corner = LOW_HALF - (found & LOW_HALF)
            begin = tl.where(parted & (index >= corner), corner, begin)
            end = tl.where(parted & (index <= corner), corner, end)
            tl.store(left + index, begin, mask=inside)
            tl.store(right + index, end, mask=inside)
            tl.store(following + index, none, mask=inside)
            slope, width = slope_between(run, rise, begin, end)
            height = (tl.load(rise + index, mask=inside, other=0) - tl.load(rise + begin)).to(tl.float64)
            along = (tl.load(run + index, mask=inside, other=0) - tl.load(run + begin)).to(tl.float64)
            height = height - slope * along
            key = (height.to(tl.float32).to(tl.int32, bitcast=True).to(tl.int64) << 32) + (LOW_HALF - index)
            tl.atomic_max(now + begin, key, mask=inside & (width > 0) & (height > FLAT), sem="relaxed")
        tl.debug_barrier()


@triton.jit
def match(run, rise, left, right, wished, offered, wanted, served, places, TILE: tl.constexpr):
    """What each place is due under the majorant, and `sharing._matched`: who hands on to whom."""
    lanes = tl.arange(0, TILE)
    nothing = tl.zeros([], tl.int64)
    all_wished, all_offered, all_served, all_wanted = nothing, nothing, nothing, nothing
    for start in range(0, places, TILE):
        index = start + lanes
        inside = index < places
        begin = tl.load(left + index, mask=inside, other=0)
        end = tl.load(right + index + 1, mask=inside, other=0)
        slope, width = slope_between(run, rise, begin, end)
        mass = tl.load(run + index + 1, mask=inside, other=0) - tl.load(run + index, mask=inside, other=0)
        measure = tl.load(rise + index + 1, mask=inside, other=0) - tl.load(rise + index, mask=inside, other=0)
        due = tl.where(width > 0, to_nearest(slope * mass.to(tl.float64)).to(tl.int64), measure)
        wish, surplus = tl.maximum(due - measure, 0), tl.maximum(measure - due, 0)
        tl.store(wished + index, all_wished + tl.cumsum(wish, 0), mask=inside)
        tl.store(offered + index, all_offered + tl.cumsum(surplus, 0), mask=inside)
        all_wished += tl.sum(wish)
        all_offered += tl.sum(surplus)
    tl.debug_barrier()
    for start in range(0, places, TILE):
        index = start + lanes
        inside = index < places
        begin = tl.load(left + index, mask=inside, other=0)
        wish_from, offer_from = before(wished, begin), before(offered, begin)
        wish_here = tl.load(wished + index, mask=inside, other=0)
        wish_last = tl.load(wished + index - 1, mask=inside & (index > 0), other=0)
        offer_here = tl.load(offered + index, mask=inside, other=0)
        offer_last = tl.load(offered + index - 1, mask=inside & (index > 0), other=0)
        met = tl.minimum(wish_here - wish_from, offer_here - offer_from)
        earlier = tl.where(index > begin, tl.minimum(wish_last - wish_from, offer_last - offer_from), 0)
        serve = tl.where(offer_here > offer_last, met - earlier, 0)
        tl.store(served + index, all_served + tl.cumsum(serve, 0), mask=inside)
        all_served += tl.sum(serve)
    tl.debug_barrier()
    for start in range(0, places, TILE):
        index = start + lanes
        inside = index < places
        begin = tl.load(left + index, mask=inside, other=0)
        end = tl.load(right + index + 1, mask=inside, other=1)
        wish_from = before(wished, begin)
        wish_here = tl.load(wished + index, mask=inside, other=0) - wish_from
        wish_last = tl.load(wished + index - 1, mask=inside & (index > 0), other=0) - wish_from
        supply = tl.load(served + end - 1) - before(served, begin)
        want = tl.where(inside, tl.minimum(wish_here, supply) - tl.minimum(wish_last, supply), 0)
        tl.store(wanted + index, all_wanted + tl.cumsum(want, 0), mask=inside)
        all_wanted += tl.sum(want)
    tl.debug_barrier()


@triton.jit
def put_factor(
    sizes, member, count, rise, wanted, served, rank, factor,
    GROUPS: tl.constexpr, PARTS: tl.constexpr, LOOK: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """What q is multiplied by in every group: what all its parts hold in the end, over q; 0 where there is none."""
    each: tl.constexpr = PARTS if LOOK else 1
    lanes = tl.arange(0, TILE)
    for start in range(0, GROUPS + 1, TILE):
        tl.store(factor + start + lanes, tl.zeros([TILE], tl.float64), mask=start + lanes <= GROUPS)
    tl.debug_barrier()
    for start in range(0, count, TILE):
        groups = start + lanes
        inside = groups < count
        held = tl.zeros([TILE], tl.int64)
        for part in range(each):
            place = groups.to(tl.int64)
            if LOOK:
                place = tl.load(rank + groups * PARTS + part, mask=inside, other=0)
            later = inside & (place > 0)
            held += tl.load(rise + place + 1, mask=inside, other=0) - tl.load(rise + place, mask=inside, other=0)
            held += tl.load(wanted + place, mask=inside, other=0) - tl.load(served + place, mask=inside, other=0)
            held -= tl.load(wanted + place - 1, mask=later, other=0) - tl.load(served + place - 1, mask=later, other=0)
        size = tl.load(sizes + groups, mask=inside, other=1)
        size -= tl.load(sizes + groups - 1, mask=inside & (groups > 0), other=0)
        target = tl.load(member + groups, mask=inside, other=0)
        tl.store(factor + target, held.to(tl.float64) / size.to(tl.float64), mask=inside)


@triton.jit
def share(
    kept, worked, sums, ids, count, longs, floats, weight, rivals, factor, spread,
    GROUPS: tl.constexpr, PLACES: tl.constexpr, PARTS: tl.constexpr, LOOK: tl.constexpr, BINS: tl.constexpr,
    BIN_LANES: tl.constexpr, BIN_ROUNDS: tl.constexpr, HALVINGS: tl.constexpr, FLAT: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """`sharing.share`: what the children of one prefix own."""
    sizes, targets = sums + SIZES * GROUPS, sums + TARGETS * GROUPS
    ends, worth, rank = kept + ENDS * PLACES, kept + WORTH * PLACES, kept + RANK * PLACES
    wanted, served = kept + WANTED * PLACES, kept + SERVED * PLACES
    run, rise = worked + RUN * PLACES, worked + RISE * PLACES
    left, right, best = worked + LEFT * PLACES, worked + RIGHT * PLACES, worked + BEST * PLACES

    units = tl.load(sizes + count - 1)
    total = units.to(tl.float64)
    all_wins, begins = draw_line(longs, floats, units, BINS, BIN_LANES)
    if LOOK:
        cut = cut_of(sizes, targets, count, longs, floats, all_wins, total, begins, weight, BINS, BIN_ROUNDS, TILE)
        place_parts(sizes, targets, ids + ORDER * GROUPS, count, cut, spread, rank, left, right, PARTS, TILE)
        places, first = count * PARTS, cut * PARTS
        weightless = draw_curve(
            left, right, places, longs, floats, all_wins, total, begins, ends, worth, run, rise, True, BINS, BIN_ROUNDS,
            TILE,
        )  # fmt: skip
    else:
        places, first = count, 0
        weightless = draw_curve(
            sizes, targets, places, longs, floats, all_wins, total, begins, ends, worth, run, rise, False, BINS,
            BIN_ROUNDS, TILE,
        )  # fmt: skip
    find_corners(run, rise, left, right, best, places, weightless, first, PLACES, HALVINGS, FLAT, TILE)
    match(
        run, rise, left, right, worked + WISHED * PLACES, worked + OFFERED * PLACES, wanted, served, places, TILE
    )  # fmt: skip
    if rivals > 0:
        put_factor(
            sizes, ids + MEMBER * GROUPS, count, rise, wanted, served, rank, factor, GROUPS, PARTS, LOOK, TILE
        )  # fmt: skip


@triton.jit
def refine(
    slots, above, parent_of, children_of, p_at, q_at, group_at, counts, sums, ids, kept_above, kept, worked, longs,
    floats, weights, competes, factor, spread, all_slots, width, width_above,
    GROUPS: tl.constexpr, PLACES: tl.constexpr, PARTS: tl.constexpr, PART_LANES: tl.constexpr,
    LOOKED: tl.constexpr, LOOK: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr, BITS: tl.constexpr,
    BINS: tl.constexpr, BIN_LANES: tl.constexpr, BIN_ROUNDS: tl.constexpr, PLACE_ROUNDS: tl.constexpr,
    HALVINGS: tl.constexpr, FLAT: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """A level of `nested.grow`: every slot takes the labels that its parent leaves it, and shares them in turn.

    LOOK says whether it looks ahead, LOOKED whether the level above did.
    """
    program = tl.program_id(0).to(tl.int64)
    tree = program // width
    place = tl.load(slots + program)
    if place < all_slots:
        slot = tree * all_slots + place
        weight = tl.full([], 1.0, tl.float64)
        rivals = tl.zeros([], tl.int64)
        grids, densities = longs + slot * GRIDS * BINS, floats + slot * DENSITIES * BINS
        worked += program * WORKED * PLACES
        bins = tl.arange(0, BIN_LANES)
        if not FIRST:
            parent = tree * all_slots + tl.load(parent_of + slot)
            theirs = longs + parent * GRIDS * BINS
            rivals = tl.load(competes + parent)
            group = tl.load(group_at + slot)
            if rivals > 0:
                room = tree * width_above + tl.load(above + program)
                own(
                    kept_above + room * KEPT * PLACES, ids + parent * (ORDER + PARTS) * GROUPS,
                    tl.load(counts + parent), theirs, group, worked, grids + LABELS * BINS,
                    GROUPS, PLACES, PARTS, LOOKED, PART_LANES, BINS, BIN_LANES, PLACE_ROUNDS, TILE,
                )  # fmt: skip
            else:
                ends = tl.load(theirs + OWN * BINS + bins, mask=bins < BINS, other=0)
                tl.store(grids + LABELS * BINS + bins, ends, mask=bins < BINS)
            from_it = floats + parent * DENSITIES * BINS + OWN_DENSITY * BINS
            density = tl.load(from_it + bins, mask=bins < BINS, other=0.0)
            tl.store(densities + DENSITY * BINS + bins, density, mask=bins < BINS)
            reached = tl.load(weights + parent) * tl.load(p_at + slot)
            proposal = tl.load(q_at + slot) * tl.load(factor + parent * (GROUPS + 1) + group)
            weight = tl.where(reached < proposal, reached / tl.where(proposal > 0, proposal, 1.0), 1.0)
            tl.debug_barrier()
        children = tl.load(children_of + slot)
        tl.store(weights + slot, weight)
        rivals = tl.where(children > 1, 1, rivals)
        tl.store(competes + slot, rivals)
        if not LAST:  # noqa: SIM102  # as above
            if children > 0:
                branch(grids, densities, children, BITS, BINS, BIN_LANES, BIN_ROUNDS)
                share(
                    kept + program * KEPT * PLACES, worked, sums + slot * SUMS * GROUPS,
                    ids + slot * (ORDER + PARTS) * GROUPS, tl.load(counts + slot), grids, densities,
                    weight, rivals, factor + slot * (GROUPS + 1), spread,
                    GROUPS, PLACES, PARTS, LOOK, BINS, BIN_LANES, BIN_ROUNDS, HALVINGS, FLAT, TILE,
                )  # fmt: skip


@triton.jit
def label_of(ends, point, total, BINS: tl.constexpr, ROUNDS: tl.constexpr):
    """`nested._label`, for labels of slots whose grids start at `ends`, an array of pointers."""
    point = tl.minimum(point, total - 1)
    low = tl.zeros_like(point).to(tl.int32)
    high = low + BINS
    for _ in range(ROUNDS):
        middle = (low + high) >> 1
        beyond = (tl.load(ends + tl.minimum(middle, BINS - 1)) <= point) & (low < high)
        high = tl.where(beyond, high, tl.minimum(middle, high))
        low = tl.where(beyond, middle + 1, low)
    place = tl.minimum(low, BINS - 1)
    start = tl.where(place > 0, tl.load(ends + tl.maximum(place - 1, 0)), 0)
    width = tl.maximum(tl.load(ends + place) - start, 1)
    fraction = (point - start).to(tl.float64) / width.to(tl.float64)
    most = tl.full([], 1.0 - 1.0 / 1099511627776, tl.float64)  # a bare number would be rounded to single precision
    return place.to(tl.float64) + tl.minimum(fraction, most)


@triton.jit
def pick_path(
    parent_of, depths, children_of, labels, uniforms, best, heirs, path, slots, columns, stride,
    LENGTH: tl.constexpr, BITS: tl.constexpr, BINS: tl.constexpr, BIN_ROUNDS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """`nested.pick`, a tree to a program."""
    tree = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, LANES)
    inside = lanes < slots
    own = tree * slots + lanes
    parent = tree * slots + tl.load(parent_of + own, mask=inside, other=0)
    depth = tl.load(depths + own, mask=inside, other=-1)
    children = tl.load(children_of + own, mask=inside, other=0)
    ends = labels + tl.where(inside, own, tree * slots) * stride
    total = tl.load(ends + BINS - 1)
    dealt = uniforms + (tree * columns + lanes - 1) * 3
    drawn = tl.load(dealt, mask=inside & (lanes > 0), other=0.0)
    fraction = tl.load(dealt + 1, mask=inside & (lanes > 0), other=0.0)
    label = label_of(ends, (drawn * total.to(tl.float64)).to(tl.int64), total, BINS, BIN_ROUNDS)
    none = tl.full([LANES], -1, tl.int64)
    tl.store(best + own, none, mask=inside)
    tl.store(heirs + own, none, mask=inside)
    tl.debug_barrier()
    for step in range(LENGTH):
        there = inside & (depth == LENGTH - step)
        key = label.to(tl.int64, bitcast=True)
        tl.atomic_max(best + parent, key, mask=there, sem="relaxed")
        tl.debug_barrier()
        wins = there & (tl.load(best + parent) == key)
        tl.atomic_max(heirs + parent, lanes.to(tl.int64), mask=wins, sem="relaxed")
        highest = tl.load(best + own, mask=inside, other=0)
        highest = tl.where(highest >= 0, highest, 0).to(tl.float64, bitcast=True)
        above = (depth == LENGTH - 1 - step) & (children > 0)
        if BITS > 1:
            share = powers(highest / BINS, tl.maximum(children, 1), BITS)
            fresh = label_of(ends, (share * total.to(tl.float64)).to(tl.int64), total, BINS, BIN_ROUNDS)
            highest = tl.where(children > 1, tl.floor(fresh) + fraction, highest)
        label = tl.where(above, highest, label)
    tl.debug_barrier()
    node = tl.zeros([], tl.int64)
    for level in range(LENGTH):
        node = tl.where(node >= 0, tl.load(heirs + tree * slots + tl.maximum(node, 0)), -1)
        tl.store(path + tree * LENGTH + level, node)

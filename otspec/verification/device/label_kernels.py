"""Labels on a grid in Triton: `grid.branch` and `nested`, a prefix to a program and a level to a launch.

What does not depend on labels is done for all prefixes together: sums of the groups, and the order of their parts.
"""

from __future__ import annotations

import triton
import triton.language as tl

from otspec.verification.device.bucket_kernels import running_maximum
from otspec.verification.device.sharing_kernels import (
    BINNED,
    DENSITIES,
    DENSITY,
    GRIDS,
    KEPT,
    LABELS,
    OWN,
    OWN_DENSITY,
    RATIOS,
    SIZES,
    SUMS,
    TARGETS,
    WINS,
    WORKED,
    chances,
    interpolated,
    own,
    search,
    share,
)


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
    target, size, stride, children, sums, order, longs, floats, factor, competes, spread,
    GROUPS: tl.constexpr, PARTS: tl.constexpr, LOOK: tl.constexpr, GROUP_LANES: tl.constexpr, STEPS: tl.constexpr,
    ROUNDS: tl.constexpr, BINS: tl.constexpr, BIN_LANES: tl.constexpr,
):  # fmt: skip
    """All labels for every slot, which keeps them unless it competes, and no factors.

    Of those that have children the running sums of the groups, and for look-ahead their parts in ascending order.
    """
    slot = tl.program_id(0).to(tl.int64)
    bins = tl.arange(0, BIN_LANES)
    ends = (bins + 1).to(tl.int64) * (4611686018427387904 // BINS)
    tl.store(longs + (slot * GRIDS + LABELS) * BINS + bins, ends, mask=bins < BINS)
    even = tl.full([BIN_LANES], 1.0, tl.float64)
    tl.store(floats + (slot * DENSITIES + DENSITY) * BINS + bins, even, mask=bins < BINS)
    tl.store(competes + slot, tl.zeros([], tl.int64))
    groups = tl.arange(0, GROUP_LANES)
    tl.store(factor + slot * (GROUPS + 1) + groups, tl.full([GROUP_LANES], 1.0, tl.float64), mask=groups <= GROUPS)
    if tl.load(children + slot) > 0:
        sums += slot * SUMS * GROUPS
        inside = groups < GROUPS
        mine = tl.load(size + slot * stride + groups, mask=inside, other=0)
        there = tl.load(target + slot * stride + groups, mask=inside, other=0)
        ratio = there.to(tl.float64) / tl.maximum(mine, 1).to(tl.float64)
        ratio = tl.where(mine > 0, ratio, 0.0).to(tl.int64, bitcast=True)
        ratio = running_maximum(ratio, groups, STEPS)
        tl.store(sums + SIZES * GROUPS + groups, tl.cumsum(mine, 0), mask=inside)
        tl.store(sums + TARGETS * GROUPS + groups, tl.cumsum(there, 0), mask=inside)
        if LOOK:
            # Parts ascend with their groups: searches find how many of each kind come first.
            tl.store(sums + RATIOS * GROUPS + groups, ratio, mask=inside)
            tl.debug_barrier()
            for part in range(PARTS):
                key = (ratio.to(tl.float64, bitcast=True) * tl.load(spread + part)).to(tl.int64, bitcast=True) >> 1
                rank = tl.zeros([GROUP_LANES], tl.int32)
                for other in range(PARTS):
                    times = tl.load(spread + other)
                    low = tl.zeros([GROUP_LANES], tl.int32)
                    high = low + GROUPS
                    for _ in range(ROUNDS):
                        middle = (low + high) >> 1
                        theirs = tl.load(sums + RATIOS * GROUPS + tl.minimum(middle, GROUPS - 1))
                        theirs = (theirs.to(tl.float64, bitcast=True) * times).to(tl.int64, bitcast=True) >> 1
                        tied = (middle < groups) | ((middle == groups) & (other < part))
                        first = ((theirs < key) | ((theirs == key) & tied)) & (low < high)
                        high = tl.where(first, high, tl.minimum(middle, high))
                        low = tl.where(first, middle + 1, low)
                    rank += low
                tl.store(order + slot * PARTS * GROUPS + rank, groups * PARTS + part, mask=inside)


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
            place = search(longs + LABELS * BINS, points, BINS, ROUNDS)
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
def refine(
    slots, above, parent_of, children_of, p_at, q_at, group_at, sums, order, kept_above, kept, worked, longs,
    floats, weights, competes, factor, spread, all_slots, width, width_above,
    GROUPS: tl.constexpr, GROUP_LANES: tl.constexpr, PARTS: tl.constexpr, LANES: tl.constexpr, STEPS: tl.constexpr,
    LOOKED: tl.constexpr, LOOK: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr, BITS: tl.constexpr,
    BINS: tl.constexpr, BIN_LANES: tl.constexpr, BIN_ROUNDS: tl.constexpr, ROUNDS: tl.constexpr,
    HALVINGS: tl.constexpr, FLAT: tl.constexpr,
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
        worked += program * WORKED * LANES
        bins = tl.arange(0, BIN_LANES)
        if not FIRST:
            parent = tree * all_slots + tl.load(parent_of + slot)
            theirs = longs + parent * GRIDS * BINS
            rivals = tl.load(competes + parent)
            group = tl.load(group_at + slot)
            if rivals > 0:
                room = tree * width_above + tl.load(above + program)
                own(
                    kept_above + room * KEPT * LANES, theirs, worked, group, grids + LABELS * BINS,
                    GROUPS, PARTS, LOOKED, LANES, ROUNDS, BINS, BIN_LANES,
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
                    kept + program * KEPT * LANES, worked, sums + slot * SUMS * GROUPS, order + slot * PARTS * GROUPS,
                    grids, densities, weight, rivals, factor + slot * (GROUPS + 1), spread,
                    GROUPS, GROUP_LANES, PARTS, LOOK, LANES, STEPS, BINS, BIN_LANES, BIN_ROUNDS, HALVINGS, FLAT,
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
    parent_of, depths, children_of, labels, uniforms, best, heirs, slots, columns, stride,
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

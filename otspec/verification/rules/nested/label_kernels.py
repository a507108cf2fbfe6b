"""Labels on a grid in Triton: `grid.branch` and `nested`, a prefix to a program and a level to a launch.

What does not depend on labels is done for all prefixes together: sums of the groups, and the order of their parts.
Levels below each other whose prefixes have one child take one launch.
"""

from __future__ import annotations

import triton
import triton.language as tl

from otspec.verification.rules.block.line_kernels import lay_root, lay_slots, line_of
from otspec.verification.rules.buckets.bucket_kernels import running_maximum
from otspec.verification.rules.nested.sharing_kernels import (
    BINNED,
    GRIDS,
    KEPT,
    LABELS,
    OWN,
    PART_MASS,
    PART_SIZE,
    PARTED,
    RATIOS,
    SIZES,
    SUMS,
    TARGETS,
    WINS,
    WORKED,
    chances,
    interpolated,
    nearest,
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
def even_labels(bins, BINS: tl.constexpr):
    """`grid.everything`, as running sums."""
    return (bins + 1).to(tl.int64) * (4611686018427387904 // BINS)


@triton.jit
def lay_out(
    target, size, stride, children, sums, order, parted, longs, factor, competes, spread,
    GROUPS: tl.constexpr, PARTS: tl.constexpr, PART_LANES: tl.constexpr, LOOK: tl.constexpr, GROUP_LANES: tl.constexpr,
    STEPS: tl.constexpr, ROUNDS: tl.constexpr, BINS: tl.constexpr, BIN_LANES: tl.constexpr,
):  # fmt: skip
    """All labels for every slot, which keeps them unless it competes, and no factors.

    Of those that have children the running sums of the groups, and for look-ahead their parts in ascending order.
    """
    slot = tl.program_id(0).to(tl.int64)
    bins = tl.arange(0, BIN_LANES)
    tl.store(longs + (slot * GRIDS + LABELS) * BINS + bins, even_labels(bins, BINS), mask=bins < BINS)
    tl.store(competes + slot, tl.zeros([], tl.int64))
    groups = tl.arange(0, GROUP_LANES)
    tl.store(factor + slot * (GROUPS + 1) + groups, tl.full([GROUP_LANES], 1.0, tl.float64), mask=groups <= GROUPS)
    if tl.load(children + slot) > 0:
        sums += slot * SUMS * GROUPS
        inside = groups < GROUPS
        mine = tl.load(size + slot * stride + groups, mask=inside, other=0)
        there = tl.load(target + slot * stride + groups, mask=inside, other=0)
        tl.store(sums + SIZES * GROUPS + groups, tl.cumsum(mine, 0), mask=inside)
        tl.store(sums + TARGETS * GROUPS + groups, tl.cumsum(there, 0), mask=inside)
        if LOOK:
            ratio = there.to(tl.float64) / tl.maximum(mine, 1).to(tl.float64)
            ratio = tl.where(mine > 0, ratio, 0.0).to(tl.int64, bitcast=True)
            ratio = running_maximum(ratio, groups, STEPS)
            tl.store(sums + RATIOS * GROUPS + groups, ratio, mask=inside)
            tl.debug_barrier()
            # Parts ascend with their groups: searches find how many of each kind come first, of all kinds at once.
            others = tl.arange(0, PART_LANES)
            known = others < PARTS
            times = tl.load(spread + others, mask=known, other=0.0)[:, None]
            for part in range(PARTS):
                factors = tl.load(spread + part)
                key = (ratio.to(tl.float64, bitcast=True) * factors).to(tl.int64, bitcast=True)[None, :] >> 1
                low = tl.zeros([PART_LANES, GROUP_LANES], tl.int32)
                high = low + tl.where(known, GROUPS, 0)[:, None]
                for _ in range(ROUNDS):
                    middle = (low + high) >> 1
                    theirs = tl.load(sums + RATIOS * GROUPS + tl.minimum(middle, GROUPS - 1))
                    theirs = (theirs.to(tl.float64, bitcast=True) * times).to(tl.int64, bitcast=True) >> 1
                    tied = (middle < groups[None, :]) | ((middle == groups[None, :]) & (others < part)[:, None])
                    first = ((theirs < key) | ((theirs == key) & tied)) & (low < high)
                    high = tl.where(first, high, tl.minimum(middle, high))
                    low = tl.where(first, middle + 1, low)
                rank = tl.sum(low, axis=0)
                tl.store(order + slot * PARTS * GROUPS + rank, groups * PARTS + part, mask=inside)
                sizes = parted + (slot * PARTED + PART_SIZE) * PARTS * GROUPS
                tl.store(sizes + rank, (mine + part) // PARTS, mask=inside)
                masses = parted + (slot * PARTED + PART_MASS) * PARTS * GROUPS
                tl.store(masses + rank, nearest(there.to(tl.float64) * factors / PARTS), mask=inside)


@triton.jit
def branch(
    longs, densities, ends, density, children,
    BITS: tl.constexpr, BINS: tl.constexpr, BIN_LANES: tl.constexpr, ROUNDS: tl.constexpr, FAINT: tl.constexpr,
):  # fmt: skip
    """`grid.branch`: the labels of any one of a slot's children; no slot of the level has several if BITS is 1."""
    bins = tl.arange(0, BIN_LANES)
    inside = bins < BINS
    if BITS > 1:  # noqa: SIM102  # known when it is compiled, unlike what follows
        if children > 1:
            tl.store(longs + LABELS * BINS + bins, ends, mask=inside)  # those of the first slot are only in lanes
            tl.debug_barrier()
            masses = ends - tl.load(longs + LABELS * BINS + bins - 1, mask=inside & (bins > 0), other=0)
            tl.store(longs + WINS * BINS + bins, chances(masses, density, inside), mask=inside)
            tl.debug_barrier()
            whole = tl.load(longs + LABELS * BINS + BINS - 1)
            steps = tl.minimum((bins + 1).to(tl.float64) / BINS, 1.0)
            points = (powers(steps, children + tl.zeros_like(bins), BITS) * whole.to(tl.float64)).to(tl.int64)
            points = tl.minimum(points, whole)
            place = search(longs + LABELS * BINS, points, BINS, ROUNDS)
            reached = interpolated(longs + WINS * BINS, longs + LABELS * BINS, points, place)
            tl.store(longs + BINNED * BINS + bins, reached, mask=inside)
            tl.debug_barrier()
            earlier = tl.load(longs + BINNED * BINS + bins - 1, mask=inside & (bins > 0), other=0)
            density = tl.where(inside, reached - earlier, 0).to(tl.float64)
            top = tl.max(density)
            density = tl.maximum(tl.where(top > 0, density / tl.where(top > 0, top, 1.0), 1.0), FAINT)
            ends = even_labels(bins, BINS)
            tl.debug_barrier()
    tl.store(longs + OWN * BINS + bins, ends, mask=inside)
    tl.store(densities + bins, density, mask=inside)
    return ends, density


@triton.jit
def refine_slot(
    slot, parent, weight_above, rivals, children_of, p_at, q_at, group_at, sums, order, parted, kept_above, kept,
    worked, longs, floats, weights, competes, factor,
    GROUPS: tl.constexpr, GROUP_LANES: tl.constexpr, FIRST_GROUPS: tl.constexpr, PARTS: tl.constexpr,
    PART_LANES: tl.constexpr, LANES: tl.constexpr, STEPS: tl.constexpr, LOOKED: tl.constexpr, LOOK: tl.constexpr,
    FIRST: tl.constexpr, LAST: tl.constexpr, BITS: tl.constexpr, BINS: tl.constexpr, BIN_LANES: tl.constexpr,
    BIN_ROUNDS: tl.constexpr, ROUNDS: tl.constexpr, FAINT: tl.constexpr, HALVINGS: tl.constexpr, NOISE: tl.constexpr,
    LEAST: tl.constexpr, LOWEST: tl.constexpr, KEYS: tl.constexpr, SHIFT: tl.constexpr, NUMBER: tl.constexpr,
):  # fmt: skip
    """A slot takes the labels that its parent leaves it, and shares them in turn; its weight, and whether it competes.

    LOOK says whether it looks ahead, LOOKED whether its parent did.
    """
    children = tl.load(children_of + slot)
    # What does not depend on the levels above comes first, and is there when it is asked for.
    lanes, groups = tl.arange(0, LANES), tl.arange(0, GROUP_LANES)
    inside = groups < tl.where(children > 0, GROUPS, 0)
    sizes, targets = sums + (slot * SUMS + SIZES) * GROUPS, sums + (slot * SUMS + TARGETS) * GROUPS
    end_of_group = tl.load(sizes + groups, mask=inside, other=0)
    target = tl.load(targets + groups, mask=inside, other=0)
    item = lanes
    if not LAST:
        if LOOK:
            there = lanes < tl.where(children > 0, PARTS * GROUPS, 0)
            item = tl.load(order + slot * PARTS * GROUPS + lanes, mask=there, other=0)
            parted += slot * PARTED * PARTS * GROUPS
            size = tl.load(parted + PART_SIZE * PARTS * GROUPS + lanes, mask=there, other=0)
            mass = tl.load(parted + PART_MASS * PARTS * GROUPS + lanes, mask=there, other=0)
        else:
            there = lanes < tl.where(children > 0, GROUPS, 0)
            later = there & (lanes > 0)
            size = tl.load(sizes + lanes, mask=there, other=0) - tl.load(sizes + lanes - 1, mask=later, other=0)
            mass = tl.load(targets + lanes, mask=there, other=0)
            mass -= tl.load(targets + lanes - 1, mask=later, other=0)

    weight = tl.full([], 1.0, tl.float64)
    grids, densities = longs + slot * GRIDS * BINS, floats + slot * BINS
    bins = tl.arange(0, BIN_LANES)
    ends, density = even_labels(bins, BINS), tl.full([BIN_LANES], 1.0, tl.float64)
    if not FIRST:
        theirs = longs + parent * GRIDS * BINS
        group = tl.load(group_at + slot)
        density = tl.load(floats + parent * BINS + bins, mask=bins < BINS, other=0.0)
        reached = weight_above * tl.load(p_at + slot)
        proposal = tl.load(q_at + slot) * tl.load(factor + parent * (GROUPS + 1) + group)
        weight = tl.where(reached < proposal, reached / tl.where(proposal > 0, proposal, 1.0), 1.0)
        if rivals > 0:
            ends = own(
                kept_above, theirs, worked, group, grids + LABELS * BINS,
                GROUPS, PARTS, PART_LANES, LOOKED, LANES, ROUNDS, BINS, BIN_LANES,
            )  # fmt: skip
        else:
            ends = tl.load(theirs + OWN * BINS + bins, mask=bins < BINS, other=0)
            tl.store(grids + LABELS * BINS + bins, ends, mask=bins < BINS)
    rivals = tl.where(children > 1, 1, rivals)
    tl.store(weights + slot, weight)
    tl.store(competes + slot, rivals)
    if not LAST:  # noqa: SIM102  # known when it is compiled, unlike what follows
        if children > 0:
            ends, density = branch(grids, densities, ends, density, children, BITS, BINS, BIN_LANES, BIN_ROUNDS, FAINT)
            share(
                kept, worked, size, mass, item, sizes, end_of_group, target,
                grids, ends, densities, density, weight, rivals, factor + slot * (GROUPS + 1),
                GROUPS, GROUP_LANES, FIRST_GROUPS, PARTS, LOOK, LANES, STEPS, BINS, BIN_LANES, BIN_ROUNDS,
                HALVINGS, NOISE, LEAST, LOWEST, KEYS, SHIFT, NUMBER,
            )  # fmt: skip
    return weight, rivals


@triton.jit
def refine(
    slots, above, first_of, parent_of, children_of, p_at, q_at, group_at, sums, order, parted, kept, worked, longs,
    floats, weights, competes, factor, all_slots, width, width_above, source, rooms,
    GROUPS: tl.constexpr, GROUP_LANES: tl.constexpr, FIRST_GROUPS: tl.constexpr, PARTS: tl.constexpr,
    PART_LANES: tl.constexpr, LANES: tl.constexpr, STEPS: tl.constexpr, LOOKED: tl.constexpr, LOOK: tl.constexpr,
    FIRST: tl.constexpr, LAST: tl.constexpr, DEEP: tl.constexpr, BITS: tl.constexpr, BINS: tl.constexpr,
    BIN_LANES: tl.constexpr, BIN_ROUNDS: tl.constexpr, ROUNDS: tl.constexpr, FAINT: tl.constexpr,
    HALVINGS: tl.constexpr, NOISE: tl.constexpr, LEAST: tl.constexpr, LOWEST: tl.constexpr, KEYS: tl.constexpr,
    SHIFT: tl.constexpr, NUMBER: tl.constexpr,
):  # fmt: skip
    """A level of `nested.grow`, a slot to a program; or DEEP levels, if none of their slots has several children.

    What slots keep for the level below is in one of three places, of as many rooms: not where the level above has it,
    which others may still read, and from then on in the two others by turns.
    """
    program = tl.program_id(0).to(tl.int64)
    tree = program // width
    place = tl.load(slots + program)
    worked += program * WORKED * LANES
    if place < all_slots:
        parent, room, held = tree * all_slots, program, source
        weight = tl.full([], 1.0, tl.float64)
        rivals = tl.zeros([], tl.int64)
        if not FIRST:
            parent += tl.load(parent_of + tree * all_slots + place)
            room = tree * width_above + tl.load(above + program)
            weight, rivals = tl.load(weights + parent), tl.load(competes + parent)
        for step in range(DEEP):
            if place >= 0:
                slot = tree * all_slots + place
                mine = (source + 1 + step % 2) % 3
                weight, rivals = refine_slot(
                    slot, parent, weight, rivals, children_of, p_at, q_at, group_at, sums, order, parted,
                    kept + (held * rooms + room) * KEPT * LANES, kept + (mine * rooms + program) * KEPT * LANES,
                    worked, longs, floats, weights, competes, factor,
                    GROUPS, GROUP_LANES, FIRST_GROUPS, PARTS, PART_LANES, LANES, STEPS, LOOKED, LOOK, FIRST, LAST,
                    BITS, BINS, BIN_LANES, BIN_ROUNDS, ROUNDS, FAINT, HALVINGS, NOISE, LEAST, LOWEST, KEYS, SHIFT,
                    NUMBER,
                )  # fmt: skip
                parent, room, held = slot, program, mine
                place = tl.load(first_of + slot)
                tl.debug_barrier()


@triton.jit
def nearer(place, ends, point, there, WIDTH: tl.constexpr, STRIDE: tl.constexpr):
    """The place of a point that lies in the WIDTH bins from a place on, up to a stride."""
    found = place
    for reached in tl.static_range(STRIDE, WIDTH, STRIDE):
        passed = tl.load(ends + place + (reached - 1), mask=there, other=9223372036854775807) <= point
        found += tl.where(passed, STRIDE, 0)
    return found


@triton.jit
def label_of(ends, total, drawn, there, STRIDES: tl.constexpr):
    """`nested._label` of the part `drawn` of a total of labels, of slots whose grids start at `ends`, pointers.

    To halve the grid again and again would be a trip to memory for every round.  Here it is one for every stride, from
    the first, the whole grid, on to the next: what is on the way is asked for at once.
    """
    point = tl.minimum((drawn * total.to(tl.float64)).to(tl.int64), total - 1)
    place = tl.zeros_like(point)
    for i in tl.static_range(1, len(STRIDES)):
        place = nearer(place, ends, point, there, STRIDES[i - 1], STRIDES[i])
    before = tl.load(ends + place - 1, mask=there & (place > 0), other=0)
    width = tl.maximum(tl.load(ends + place, mask=there, other=1) - before, 1)
    fraction = (point - before).to(tl.float64) / width.to(tl.float64)
    most = tl.full([], 1.0 - 1.0 / 1099511627776, tl.float64)  # a bare number would be rounded to single precision
    return place.to(tl.float64) + tl.minimum(fraction, most)


@triton.jit
def climb(node, there, lanes, parent_of, owners):
    """The parents of the nodes that lanes stand at, if they are to go on; their nodes keep who went."""
    tl.store(owners + node, lanes, mask=there)
    return tl.where(there, tl.load(parent_of + node), node)


@triton.jit
def higher(key, tag, other, other_tag):
    """The larger key, the larger tag of equal ones."""
    mine = (key > other) | ((key == other) & (tag > other_tag))
    return tl.where(mine, key, other), tl.where(mine, tag, other_tag)


@triton.jit
def pick_path(
    parent_of, depths, children_of, labels, uniforms, tokens, target_rows, draft_rows, best, heirs, owners,
    line, drafted, lengths, along_target, along_draft, places, slots, leaves, columns, stride, lowest,
    LENGTH: tl.constexpr, COMPETE: tl.constexpr, BITS: tl.constexpr, BINS: tl.constexpr, STRIDES: tl.constexpr,
    LANES: tl.constexpr, SLOT_LANES: tl.constexpr, LEVELS: tl.constexpr,
):  # fmt: skip
    """`nested.pick`, and the line that was picked; a tree to a program.

    A lane starts at a leaf and climbs for as long as its label wins.  Only one comes to each slot, which keeps its
    number; so the line is where the lane that wins at the root has been, and nobody walks down again.  Children compete
    only where there may be several: bit d of COMPETE is for those of level d's slots, the highest one for all levels
    beyond, and `lowest` is the lowest level whose slots compete: no constant, or the compiler would unroll their loop.
    """
    tree = tl.program_id(0).to(tl.int64)
    root = tree * slots
    parent_of += root
    depths += root
    children_of += root
    labels += root * stride
    uniforms += tree * columns * 3
    tokens += root
    target_rows += root
    draft_rows += root
    best += root
    heirs += root
    owners += root
    line, drafted, lengths, along_target, along_draft, places = line_of(
        tree, line, drafted, lengths, along_target, along_draft, places, LENGTH
    )

    # What all slots have is read at once, so that parents are at hand when lanes climb.  A program waits where a number
    # is used: what can be asked for is, before.
    slot = tl.arange(0, SLOT_LANES)
    inside = slot < slots
    above = tl.load(parent_of + slot, mask=inside, other=0)
    lanes = tl.arange(0, LANES)
    node = (slots - leaves + lanes).to(tl.int64)
    starts = (lanes < leaves) & (node > 0)
    node = tl.where(starts, node, 0)
    own = labels + node * stride
    depth, children = tl.load(depths + node), tl.load(children_of + node)
    total = tl.load(own + BINS - 1)
    drawn = tl.load(uniforms + (node - 1) * 3, mask=starts, other=0.0)
    depth_of = tl.load(depths + slot, mask=inside, other=0)
    children_here = tl.load(children_of + slot, mask=inside, other=0)
    token = tl.load(tokens + slot, mask=inside, other=0)
    target_row = tl.load(target_rows + slot, mask=inside, other=0)
    root_target, root_draft = tl.load(target_rows), tl.load(draft_rows)
    least = tl.full([], -9223372036854775807, tl.int64)
    if lowest > 1:
        tl.store(best + slot, least, mask=inside)
        tl.store(heirs + slot, -1, mask=inside)
        tl.debug_barrier()

    starts = starts & (depth > 0) & ((depth == LENGTH) | ((depth < LENGTH) & (children == 0)))
    depth = tl.where(starts, depth, 0)  # that of the leaf, and 0 once it has lost
    for step in range(LENGTH - lowest):
        node = climb(node, depth >= LENGTH - step, lanes, parent_of, owners)
    draft_row = tl.load(draft_rows + above)
    label = tl.zeros([LANES], tl.float64)
    if lowest > 0:
        label = label_of(own, total, drawn, starts, STRIDES)
    for step in range(lowest - 1):
        level = lowest - 1 - step
        there = depth > level
        parent = climb(node, there, lanes, parent_of, owners)
        if ((tl.full([], COMPETE, tl.int64) >> tl.minimum(level, 62)) & 1) == 1:
            key = label.to(tl.int64, bitcast=True)
            tl.atomic_max(best + parent, key, mask=there, sem="relaxed")
            ends = labels + parent * stride
            rivals, total = tl.load(children_of + parent), tl.load(ends + BINS - 1)
            fraction = tl.load(uniforms + (parent - 1) * 3 + 1, mask=there, other=0.0)
            tl.debug_barrier()
            wins = there & (tl.load(best + parent) == key)
            tl.atomic_max(heirs + parent, node, mask=wins, sem="relaxed")
            tl.debug_barrier()
            wins = wins & (tl.load(heirs + parent) == node)
            depth = tl.where(there & ~wins, 0, depth)
            # The largest of b numbers is below s with probability s**b: that is the parent's own number.
            wins = wins & (rivals > 1)
            share = powers(tl.where(label >= 0, label, 0.0) / BINS, tl.maximum(rivals, 1), BITS)
            fresh = label_of(ends, total, share, wins, STRIDES)
            label = tl.where(wins, tl.floor(fresh) + fraction, label)
        node = parent
    there = depth > 0
    tl.store(owners + node, lanes, mask=there)
    lay_root(root_target, root_draft, root, line, drafted, lengths, along_target, along_draft, places, LENGTH, LEVELS)
    tl.debug_barrier()
    owner = tl.load(owners + slot, mask=(depth_of > 0) & (depth_of <= LENGTH), other=-2)
    key = tl.where(there, label.to(tl.int64, bitcast=True), least)
    _, tag = tl.reduce((key, tl.where(there, node * LANES + lanes, -1)), 0, higher)
    lay_slots(
        owner == tag % LANES, (children_here == 0) | (depth_of == LENGTH), depth_of, slot, token, target_row,
        draft_row, root + above, line, drafted, lengths, along_target, along_draft, places,
    )  # fmt: skip

"""Labels on a grid by Triton: prefixes are laid out, and their labels shared out level by level.

What does not depend on labels is done for all prefixes together: sums of the groups, and the order of their parts.
Levels below each other whose prefixes have one child take one launch.

Shapes: N slots of B trees, B * S; k = GROUPS groups of PARTS parts; a level of W slots a tree.  Programs of a level
have workspaces of their own, B * (slots of the widest level).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from otspec.verification.rules.nested.grid import Grown
from otspec.verification.rules.nested.grid_kernels import BIN_LANES, BINS, GRIDS, LABELS, OWN, branch, even_labels
from otspec.verification.rules.nested.sharing_kernels import (
    DOWN,
    PART_MASS,
    PART_SIZE,
    PARTED,
    RATIOS,
    SIZES,
    SUMS,
    TARGETS,
    WORKED,
    Counts,
    GroupSums,
    OwnLabels,
    Parts,
    nearest,
    own,
    share,
)
from otspec.verification.rules.nested.tensor_sharing import FIRST, GroupsAt
from otspec.verification.tensors import majorant
from otspec.verification.tensors.arithmetic_kernels import larger
from otspec.verification.tensors.majorant_kernels import Search
from otspec.verification.tensors.rows import EXACT, lanes
from otspec.verification.trees.layout import Layout

WARPS, LAY_WARPS = 8, 4
"""Of the programs that share labels, and of those that lay out groups, which are fewer than places."""


class Slots(NamedTuple):
    """What all N slots have, in the order in which `refine` takes it."""

    children_of: Tensor
    """Shape (N,): how many there are."""
    p_at: Tensor
    """Shape (N,): of the slot's token, after its parent."""
    q_at: Tensor
    """Shape (N,), likewise."""
    group_at: Tensor
    """Shape (N,), likewise."""
    sums: Tensor
    """Shape (N, SUMS, k)."""
    order: Tensor
    """Shape (N, PARTS * k): the parts of groups, ascending."""
    parted: Tensor
    """Shape (N, PARTED, PARTS * k): their q and p."""
    longs: Tensor
    """Shape (N, GRIDS, BINS)."""
    floats: Tensor
    """Shape (N, BINS): densities."""
    weights: Tensor
    """Shape (N,): of block verification."""
    competes: Tensor
    """Shape (N,): whether a slot has siblings, or one above it has."""
    factor: Tensor
    """Shape (N, k + 1)."""


class Level(NamedTuple):
    """What is fixed of a level, as a kernel hands it on."""

    ABOVE_AHEAD: bool
    """Whether the slots above look ahead."""
    AHEAD: bool
    """Whether its slots do."""
    FIRST: bool
    """Whether it is the first with several children."""
    LAST: bool
    """Whether it has no children."""
    BITS: int
    """Of numbers of children."""


@triton.jit
def lay_out(
    target, size,  # (N, k), `stride` apart
    stride,  # scalar
    children,  # (N,)
    sums,  # (N, SUMS, k)
    order,  # (N, PARTS * k)
    parted,  # (N, PARTED, PARTS * k)
    longs,  # (N, GRIDS, BINS)
    factor,  # (N, k + 1)
    competes,  # (N,)
    spread,  # (PARTS,)
    GROUPS: tl.constexpr, PARTS: tl.constexpr, PART_LANES: tl.constexpr, AHEAD: tl.constexpr, GROUP_LANES: tl.constexpr,
    ROUNDS: tl.constexpr,
):  # fmt: skip
    """All labels for every slot, which keeps them unless it competes, and no factors.

    Of those that have children the running sums of the groups, and for look-ahead their parts in ascending order.
    """
    slot = tl.program_id(0).to(tl.int64)
    bins = tl.arange(0, BIN_LANES)
    tl.store(longs + (slot * GRIDS + LABELS) * BINS + bins, even_labels(bins), mask=bins < BINS)
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
        if AHEAD:
            ratio = there.to(tl.float64) / tl.maximum(mine, 1).to(tl.float64)
            ratio = tl.where(mine > 0, ratio, 0.0).to(tl.int64, bitcast=True)
            ratio = tl.associative_scan(ratio, 0, larger)
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
def parts_of(
    slots,  # `Slots`
    slot, children,  # scalars
    lanes,  # (LANES,)
    AHEAD: tl.constexpr,
    counts,  # `Counts`
):  # fmt: skip
    """What a slot is to lay out for its children, nothing if it has none."""
    places: tl.constexpr = counts.PARTS * counts.GROUPS
    item = lanes
    if AHEAD:
        there = lanes < tl.where(children > 0, places, 0)
        item = tl.load(slots.order + slot * counts.PARTS * counts.GROUPS + lanes, mask=there, other=0)
        parted = slots.parted + slot * PARTED * counts.PARTS * counts.GROUPS
        size = tl.load(parted + PART_SIZE * counts.PARTS * counts.GROUPS + lanes, mask=there, other=0)
        mass = tl.load(parted + PART_MASS * counts.PARTS * counts.GROUPS + lanes, mask=there, other=0)
    else:
        sizes = slots.sums + (slot * SUMS + SIZES) * counts.GROUPS
        targets = slots.sums + (slot * SUMS + TARGETS) * counts.GROUPS
        there = lanes < tl.where(children > 0, counts.GROUPS, 0)
        later = there & (lanes > 0)
        size = tl.load(sizes + lanes, mask=there, other=0) - tl.load(sizes + lanes - 1, mask=later, other=0)
        mass = tl.load(targets + lanes, mask=there, other=0)
        mass -= tl.load(targets + lanes - 1, mask=later, other=0)
    return Parts(size, mass, item)


@triton.jit
def refine_slot(
    slots,  # `Slots`
    slot, parent, weight_above, competes,  # scalars
    down_above, down,  # (DOWN, LANES)
    worked,  # (WORKED, LANES)
    level,  # `Level`
    counts,  # `Counts`
    majorant,  # `Search`
):  # fmt: skip
    """A slot takes the labels that its parent leaves it and shares them; its weight, and whether it competes."""
    children = tl.load(slots.children_of + slot)
    # What does not depend on the levels above comes first, and is there when it is needed.
    lanes, groups = tl.arange(0, counts.LANES), tl.arange(0, counts.GROUP_LANES)
    inside = groups < tl.where(children > 0, counts.GROUPS, 0)
    sizes = slots.sums + (slot * SUMS + SIZES) * counts.GROUPS
    targets = slots.sums + (slot * SUMS + TARGETS) * counts.GROUPS
    end_of_group = tl.load(sizes + groups, mask=inside, other=0)
    target = tl.load(targets + groups, mask=inside, other=0)
    if not level.LAST:
        parts = parts_of(slots, slot, children, lanes, level.AHEAD, counts)

    weight = tl.full([], 1.0, tl.float64)
    longs, densities = slots.longs + slot * GRIDS * BINS, slots.floats + slot * BINS
    bins = tl.arange(0, BIN_LANES)
    ends, density = even_labels(bins), tl.full([BIN_LANES], 1.0, tl.float64)
    if not level.FIRST:
        theirs = slots.longs + parent * GRIDS * BINS
        group = tl.load(slots.group_at + slot)
        density = tl.load(slots.floats + parent * BINS + bins, mask=bins < BINS, other=0.0)
        reached = weight_above * tl.load(slots.p_at + slot)
        proposal = tl.load(slots.q_at + slot) * tl.load(slots.factor + parent * (counts.GROUPS + 1) + group)
        weight = tl.where(reached < proposal, reached / tl.where(proposal > 0, proposal, 1.0), 1.0)
        if competes > 0:
            ends = own(down_above, theirs, worked, group, longs + LABELS * BINS, level.ABOVE_AHEAD, counts)
        else:
            ends = tl.load(theirs + OWN * BINS + bins, mask=bins < BINS, other=0)
            tl.store(longs + LABELS * BINS + bins, ends, mask=bins < BINS)
    competes = tl.where(children > 1, 1, competes)
    tl.store(slots.weights + slot, weight)
    tl.store(slots.competes + slot, competes)
    if not level.LAST:  # noqa: SIM102  # known when it is compiled, unlike what follows
        if children > 0:
            ends, density = branch(longs, densities, ends, density, children, level.BITS)
            share(
                down, worked, parts, GroupSums(sizes, end_of_group, target), OwnLabels(longs, densities, ends, density),
                weight, competes, slots.factor + slot * (counts.GROUPS + 1), level.AHEAD, counts, majorant,
            )  # fmt: skip
    return weight, competes


@triton.jit
def refine(
    slots, above,  # (B, W)
    first_of, parent_of,  # (B, S)
    children_of, p_at, q_at, group_at,  # (N,)
    sums,  # (N, SUMS, k)
    order,  # (N, PARTS * k)
    parted,  # (N, PARTED, PARTS * k)
    down,  # (3, workspaces, DOWN, LANES)
    worked,  # (workspaces, WORKED, LANES)
    longs,  # (N, GRIDS, BINS)
    floats,  # (N, BINS)
    weights, competes,  # (N,)
    factor,  # (N, k + 1)
    all_slots, width, width_above, source, workspaces,  # scalars: S, W, W of the level above, where that is stored, ...
    GROUPS: tl.constexpr, GROUP_LANES: tl.constexpr, FIRST_GROUPS: tl.constexpr, PARTS: tl.constexpr,
    PART_LANES: tl.constexpr, LANES: tl.constexpr, ABOVE_AHEAD: tl.constexpr, AHEAD: tl.constexpr,
    FIRST: tl.constexpr, LAST: tl.constexpr, DEEP: tl.constexpr, BITS: tl.constexpr, ROUNDS: tl.constexpr,
    KEYS: tl.constexpr, SHIFT: tl.constexpr, NUMBER: tl.constexpr,
):  # fmt: skip
    """A level of `nested.grow`, a slot to a program; or DEEP levels, if none of their slots has several children.

    What slots store for the level below is in one of three places, of as many workspaces: not where the level above
    has it, which others may still read, and from then on in the two others by turns.
    """
    level: tl.constexpr = Level(ABOVE_AHEAD, AHEAD, FIRST, LAST, BITS)
    counts: tl.constexpr = Counts(GROUPS, GROUP_LANES, FIRST_GROUPS, PARTS, PART_LANES, LANES, ROUNDS)
    majorant: tl.constexpr = Search(KEYS, SHIFT, NUMBER)
    of_slots = Slots(children_of, p_at, q_at, group_at, sums, order, parted, longs, floats, weights, competes, factor)
    program = tl.program_id(0).to(tl.int64)
    tree = program // width
    place = tl.load(slots + program)
    worked += program * WORKED * LANES
    if place < all_slots:
        parent, workspace, held = tree * all_slots, program, source
        weight = tl.full([], 1.0, tl.float64)
        competing = tl.zeros([], tl.int64)
        if not FIRST:
            parent += tl.load(parent_of + tree * all_slots + place)
            workspace = tree * width_above + tl.load(above + program)
            weight, competing = tl.load(weights + parent), tl.load(competes + parent)
        for step in range(DEEP):
            if place >= 0:
                slot = tree * all_slots + place
                mine = (source + 1 + step % 2) % 3
                weight, competing = refine_slot(
                    of_slots, slot, parent, weight, competing, down + (held * workspaces + workspace) * DOWN * LANES,
                    down + (mine * workspaces + program) * DOWN * LANES, worked, level, counts, majorant,
                )  # fmt: skip
                parent, workspace, held = slot, program, mine
                place = tl.load(first_of + slot)
                tl.debug_barrier()


def grow_by_kernels(layout: Layout, slots_at: GroupsAt, spread: Tensor | None) -> Grown:
    """`otspec.verification.rules.nested.tensors.grow`, from what it needs to know of the laws, to the last bit.

    Parameters
    ----------
    layout : Layout
    slots_at : GroupsAt
        Of all slots, B * S: as prefixes, whose groups are read if they have children, and as children of their parents.
    spread : Tensor, shape (parts,), optional
    """
    rows, slots = layout.parent.shape
    target, size = slots_at.groups
    device, groups = target.device, target.shape[1]
    parts = 1 if spread is None else spread.shape[0]
    read = target if spread is None else spread  # in place of what is not read
    children = layout.children.contiguous()

    sums = torch.empty((rows * slots, SUMS.value, groups), dtype=torch.int64, device=device)
    order = torch.empty((rows * slots, parts * groups), dtype=torch.int32, device=device)
    parted = torch.empty((rows * slots, PARTED.value, parts * groups), dtype=torch.int64, device=device)
    longs = torch.empty((rows, slots, GRIDS.value, BINS.value), dtype=torch.int64, device=device)
    floats = torch.empty((rows, slots, BINS.value), dtype=torch.float64, device=device)
    factor = torch.empty((rows, slots, groups + 1), dtype=torch.float64, device=device)
    competes = torch.empty((rows, slots), dtype=torch.int64, device=device)
    lay_out[(rows * slots,)](
        target, size, target.stride(0), children, sums, order, parted, longs, factor, competes, read,
        GROUPS=groups, PARTS=parts, PART_LANES=lanes(parts), AHEAD=spread is not None, GROUP_LANES=lanes(groups + 1),
        ROUNDS=groups.bit_length(), num_warps=LAY_WARPS, **EXACT,
    )  # fmt: skip

    # In a tree wider than its stated width some slots are on no level: nothing is read of what they would store.
    weights = torch.empty((rows, slots), dtype=torch.float64, device=device)
    points = groups * parts + 1
    fixed = {
        "GROUPS": groups, "GROUP_LANES": lanes(groups + 1), "FIRST_GROUPS": FIRST, "PARTS": parts,
        "PART_LANES": lanes(parts), "LANES": lanes(points), "ROUNDS": points.bit_length(),
    }  # fmt: skip
    widest = max(level.slots.shape[1] for level in layout.levels)
    down = torch.empty((3, rows * widest, DOWN.value, fixed["LANES"]), dtype=torch.int64, device=device)
    worked = torch.empty((rows * widest, WORKED.value, fixed["LANES"]), dtype=torch.int64, device=device)
    parent = layout.parent.contiguous()
    number, source = layout.stem if layout.stem < layout.length else layout.length + 1, 0
    while number <= layout.length:
        level, first, last = layout.levels[number], number == layout.stem, number == layout.length
        width, deep = level.slots.shape[1], 1 if first or last else _alike(layout, number, spread)
        above_ahead, ahead = _looks_ahead(layout, number - 1, spread), _looks_ahead(layout, number, spread)
        refine[(rows * width,)](
            level.slots.contiguous(), level.above.contiguous(), layout.first.contiguous(), parent, children,
            slots_at.p, slots_at.q, slots_at.group, sums, order, parted, down, worked, longs, floats, weights, competes,
            factor, slots, width, width if first else layout.levels[number - 1].slots.shape[1], source, rows * widest,
            **fixed, **of_points(groups * (parts if ahead else 1)), ABOVE_AHEAD=above_ahead, AHEAD=ahead,
            FIRST=first, LAST=last, DEEP=deep, BITS=level.most.bit_length(), num_warps=WARPS, **EXACT,
        )  # fmt: skip
        number, source = number + deep, (source + 1 + (deep - 1) % 2) % 3
    return Grown(longs[:, :, LABELS.value], factor)


def of_points(places: int) -> dict[str, int]:
    """Of the majorant over so many places."""
    keys = lanes(places + 1)
    shift, number = majorant.key_shifts(keys)
    return {"KEYS": keys, "SHIFT": shift, "NUMBER": number}


def _alike(layout: Layout, number: int, spread: Tensor | None) -> int:
    """How many levels from one on have a child for each slot at most, and look ahead as those above them do."""
    same, end = _looks_ahead(layout, number - 1, spread), number
    while end < layout.length and layout.levels[end].most == 1 and _looks_ahead(layout, end, spread) == same:
        end += 1
    return max(end - number, 1)


def _looks_ahead(layout: Layout, level: int, spread: Tensor | None) -> bool:
    """Whether the slots of a level look ahead: those of the last one that has children do not."""
    return spread is not None and level + 1 < layout.length

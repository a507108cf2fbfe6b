"""The path of the largest label by Triton: a tournament from the leaves up, a program to a tree and a lane to a leaf.

Shapes: B trees of S slots, L = LENGTH levels below the root; grids of BINS bins; uniforms are (B, n, 3).
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from otspec.verification.rules.block.line_kernels import empty_lines, lay_root, lay_slots, line_of
from otspec.verification.rules.nested.grid import Grown
from otspec.verification.rules.nested.grid_kernels import BINS
from otspec.verification.tensors.arithmetic_kernels import powers
from otspec.verification.tensors.rows import EXACT, lanes
from otspec.verification.trees.batch import Line, TreeBatch
from otspec.verification.trees.layout import Layout

MOST_WARPS = 8
"""Of a program, however many leaves its tree has."""
MOST_PARTS = 8
"""The bin of a label is searched for in so many parts of the grid at once: the numbers between more fill registers."""


@triton.jit
def nearer(
    place, ends, point, there,  # (LANES,)
    WIDTH: tl.constexpr, STRIDE: tl.constexpr,
):  # fmt: skip
    """The place of a point that lies in the WIDTH bins from a place on, up to a stride."""
    found = place
    for reached in tl.static_range(STRIDE, WIDTH, STRIDE):
        passed = tl.load(ends + place + (reached - 1), mask=there, other=9223372036854775807) <= point
        found += tl.where(passed, STRIDE, 0)
    return found


@triton.jit
def label_of(
    ends, total, drawn, there,  # (LANES,)
    STRIDES: tl.constexpr,
):  # fmt: skip
    """`nested._label` of the part `drawn` of a total of labels, of slots whose grids start at `ends`, pointers.

    To halve the grid again and again would be a trip to memory for every round.  Here it is one for every stride, from
    the first, the whole grid, on to the next: what is on the way is loaded at once.
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
def parents_of(
    node, there, lanes,  # (LANES,)
    parent_of, owners,  # (S,)
):  # fmt: skip
    """The parents of the nodes that lanes stand at, if they are to go on; their nodes store which lane went."""
    tl.store(owners + node, lanes, mask=there)
    return tl.where(there, tl.load(parent_of + node), node)


@triton.jit
def higher(key, tag, other, other_tag):  # scalars
    """The larger key, the larger tag of equal ones."""
    mine = (key > other) | ((key == other) & (tag > other_tag))
    return tl.where(mine, key, other), tl.where(mine, tag, other_tag)


@triton.jit
def pick_path(
    parent_of, depths, children_of,  # (B, S)
    labels,  # (B, S, BINS), `stride` from slot to slot
    uniforms,  # (B, n, 3)
    tokens, target_rows, draft_rows, best, argmax_child, owners,  # (B, S)
    line, drafted,  # (B, L)
    lengths,  # (B,)
    along_target,  # (B, L + 1)
    along_draft, places,  # (B, L)
    slots, leaves, columns, stride, lowest,  # scalars: S, leaves at most, n, the stride of labels, a level
    LENGTH: tl.constexpr, COMPETE: tl.constexpr, BITS: tl.constexpr, STRIDES: tl.constexpr,
    LANES: tl.constexpr, SLOT_LANES: tl.constexpr, LEVELS: tl.constexpr,
):  # fmt: skip
    """`nested.pick`, and the line that was picked; a tree to a program.

    A lane starts at a leaf and goes up for as long as its label wins.  Only one comes to each slot, which stores its
    number; so the line is where the lane that wins at the root has been, and none walks down again.  Children compete
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
    argmax_child += root
    owners += root
    laid = line_of(tree, Line(line, drafted, lengths, along_target, along_draft, places), LENGTH)

    # What all slots have is read at once, so that parents are at hand when lanes go up.  A program waits where a number
    # is used: what can be loaded before, is.
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
        tl.store(argmax_child + slot, -1, mask=inside)
        tl.debug_barrier()

    starts = starts & (depth > 0) & ((depth == LENGTH) | ((depth < LENGTH) & (children == 0)))
    depth = tl.where(starts, depth, 0)  # that of the leaf, and 0 once it has lost
    for step in range(LENGTH - lowest):
        node = parents_of(node, depth >= LENGTH - step, lanes, parent_of, owners)
    draft_row = tl.load(draft_rows + above)
    label = tl.zeros([LANES], tl.float64)
    if lowest > 0:
        label = label_of(own, total, drawn, starts, STRIDES)
    for step in range(lowest - 1):
        level = lowest - 1 - step
        there = depth > level
        parent = parents_of(node, there, lanes, parent_of, owners)
        if ((tl.full([], COMPETE, tl.int64) >> tl.minimum(level, 62)) & 1) == 1:
            key = label.to(tl.int64, bitcast=True)
            tl.atomic_max(best + parent, key, mask=there, sem="relaxed")
            ends = labels + parent * stride
            siblings, total = tl.load(children_of + parent), tl.load(ends + BINS - 1)
            fraction = tl.load(uniforms + (parent - 1) * 3 + 1, mask=there, other=0.0)
            tl.debug_barrier()
            wins = there & (tl.load(best + parent) == key)
            tl.atomic_max(argmax_child + parent, node, mask=wins, sem="relaxed")
            tl.debug_barrier()
            wins = wins & (tl.load(argmax_child + parent) == node)
            depth = tl.where(there & ~wins, 0, depth)
            # The largest of b numbers is below s with probability s**b: that is the parent's own number.
            wins = wins & (siblings > 1)
            share = powers(tl.where(label >= 0, label, 0.0) / BINS, tl.maximum(siblings, 1), BITS)
            fresh = label_of(ends, total, share, wins, STRIDES)
            label = tl.where(wins, tl.floor(fresh) + fraction, label)
        node = parent
    there = depth > 0
    tl.store(owners + node, lanes, mask=there)
    lay_root(root_target, root_draft, root, laid, LENGTH, LEVELS)
    tl.debug_barrier()
    owner = tl.load(owners + slot, mask=(depth_of > 0) & (depth_of <= LENGTH), other=-2)
    key = tl.where(there, label.to(tl.int64, bitcast=True), least)
    _, tag = tl.reduce((key, tl.where(there, node * LANES + lanes, -1)), 0, higher)
    lay_slots(
        owner == tag % LANES, (children_here == 0) | (depth_of == LENGTH), depth_of, slot, token, target_row,
        draft_row, root + above, laid,
    )  # fmt: skip


def pick_by_kernels(batch: TreeBatch, grown: Grown, uniforms: Tensor) -> Line:
    """The line that `otspec.verification.rules.nested.tensors.pick` picks.

    Parameters
    ----------
    batch : TreeBatch
    grown : Grown
        As kernels have it.
    uniforms : Tensor of float64, shape (B, n, 3), n at least S - 1
        Row s - 1 is for slot s.
    """
    layout, (rows, slots) = batch.layout, batch.tokens.shape
    line, lowest = empty_lines(layout), 1 + max([-1, *_several(layout)])
    best, argmax_child, owners = torch.empty((3, rows, slots), dtype=torch.int64, device=batch.tokens.device)
    pick_path[(rows,)](
        *(part.contiguous() for part in (layout.parent, layout.depth, layout.children)), grown.ends,
        *(part.contiguous() for part in (uniforms, batch.tokens, batch.target_row, batch.draft_row)), best,
        argmax_child, owners, *line, slots, layout.leaves, uniforms.shape[1], grown.ends.stride(1), lowest,
        **of_tournament(layout, slots), num_warps=tournament_warps(layout, slots), **EXACT,
    )  # fmt: skip
    return line


def of_tournament(layout: Layout, slots: int) -> dict[str, Any]:
    """What is fixed when `pick_path` is compiled."""
    compete, strides = 0, [BINS.value]
    for level in _several(layout):
        compete |= 1 << min(level, 62)
    while strides[-1] > 1:
        parts = next((each for each in range(MOST_PARTS, 1, -1) if strides[-1] % each == 0), strides[-1])
        strides.append(strides[-1] // parts)
    return {
        "LENGTH": layout.length, "COMPETE": compete, "BITS": max(level.most for level in layout.levels).bit_length(),
        "STRIDES": tuple(strides), "LANES": lanes(layout.leaves), "SLOT_LANES": lanes(slots),
        "LEVELS": lanes(layout.length + 1),
    }  # fmt: skip


def tournament_warps(layout: Layout, slots: int) -> int:
    """One for 32 leaves, and 64 slots: within one warp nobody waits at barriers."""
    return min(max(lanes(layout.leaves) // 32, lanes(slots) // 64, 1), MOST_WARPS)


def _several(layout: Layout) -> list[int]:
    """Levels with slots that have several children, as far as the host knows."""
    return [number for number, level in enumerate(layout.levels[:-1]) if level.most > 1]

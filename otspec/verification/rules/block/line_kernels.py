"""The line that was picked in a tree, in Triton: laid out as a path for `path_kernels`, and put out."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def line_of(tree, line, drafted, lengths, along_target, along_draft, places, LENGTH: tl.constexpr):
    """Where the line of a tree is to be laid."""
    at = tree * LENGTH
    return line + at, drafted + at, lengths + tree, along_target + at + tree, along_draft + at, places + at


@triton.jit
def lay_root(
    target_row, draft_row, place, line, drafted, lengths, along_target, along_draft, places,
    LENGTH: tl.constexpr, LEVELS: tl.constexpr,
):  # fmt: skip
    """A line that ends at the root: what any line has beyond its end."""
    levels = tl.arange(0, LEVELS)
    inside = levels < LENGTH
    tl.store(line + levels, -1, mask=inside)
    tl.store(drafted + levels, -1, mask=inside)
    tl.store(along_draft + levels, draft_row, mask=inside)
    tl.store(places + levels, place, mask=inside)
    tl.store(along_target + levels, target_row, mask=levels <= LENGTH)
    tl.store(lengths, 0)


@triton.jit
def lay_slots(
    on, ends, depth, slot, token, target_row, draft_row, place,
    line, drafted, lengths, along_target, along_draft, places,
):  # fmt: skip
    """The slots that are on the line, each at its level; `ends` tells the last one of them.

    Their tokens have the draft law and the factors of their parents: `draft_row` and `place` are those.
    """
    tl.store(line + depth - 1, slot, mask=on)
    tl.store(drafted + depth - 1, token, mask=on)
    tl.store(along_draft + depth - 1, draft_row, mask=on)
    tl.store(places + depth - 1, place, mask=on)
    tl.store(along_target + depth, target_row, mask=on)
    tl.store(lengths + depth * 0, depth, mask=on & ends)


@triton.jit
def lay_first(
    firsts, parents, depths, tokens, target_rows, draft_rows,
    line, drafted, lengths, along_target, along_draft, places, slots,
    LENGTH: tl.constexpr, LEVELS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The line from the root on to the first child of the first child, a tree to a program.

    Lanes are slots.  All first children are read at once, so that they are at hand when the line is walked.
    """
    tree = tl.program_id(0).to(tl.int64)
    root = tree * slots
    line, drafted, lengths, along_target, along_draft, places = line_of(
        tree, line, drafted, lengths, along_target, along_draft, places, LENGTH
    )
    slot = tl.arange(0, LANES)
    inside = slot < slots
    first = tl.load(firsts + root + slot, mask=inside, other=-1)
    depth = tl.load(depths + root + slot, mask=inside, other=0)
    token = tl.load(tokens + root + slot, mask=inside, other=0)
    target_row = tl.load(target_rows + root + slot, mask=inside, other=0)
    place = root + tl.load(parents + root + slot, mask=inside, other=0)
    root_target, root_draft = tl.load(target_rows + root), tl.load(draft_rows + root)
    draft_row = tl.load(draft_rows + place)
    lay_root(root_target, root_draft, root, line, drafted, lengths, along_target, along_draft, places, LENGTH, LEVELS)
    node = tl.zeros([], tl.int64)
    on = slot < 0
    for _ in range(LENGTH):
        node = tl.where(node >= 0, tl.load(firsts + root + tl.maximum(node, 0)), -1)
        on = on | (slot == node)
    tl.debug_barrier()
    lay_slots(
        on, (first < 0) | (depth == LENGTH), depth, slot, token, target_row, draft_row, place,
        line, drafted, lengths, along_target, along_draft, places,
    )  # fmt: skip


@triton.jit
def put_out(
    line, drafted, accepted, token, sound, slots, tokens, count, after, LENGTH: tl.constexpr, LANES: tl.constexpr
):
    """What a tree puts out: nothing of the line, and token 0, if it is not sound."""
    tree = tl.program_id(0).to(tl.int64)
    right = tl.load(sound + tree) != 0
    kept = tl.where(right, tl.load(accepted + tree), 0)
    lanes = tl.arange(0, LANES)
    inside = lanes < LENGTH
    at = tree * LENGTH + lanes
    there = inside & (lanes < kept)
    tl.store(slots + at, tl.load(line + at, mask=there, other=-1), mask=inside)
    tl.store(tokens + at, tl.load(drafted + at, mask=there, other=-1), mask=inside)
    tl.store(count + tree, kept)
    tl.store(after + tree, tl.where(right, tl.load(token + tree), 0))

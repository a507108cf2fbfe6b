"""The line that was picked in a tree, in Triton: laid out as a path for `path_kernels`, and put out."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def lay_line(
    heirs, tokens, target_rows, draft_rows, line, drafted, along_target, along_draft, places, lengths, slots,
    LENGTH: tl.constexpr,
):  # fmt: skip
    """From the root on to the heir of the heir: slots and tokens, -1 after the end, and the rows of their laws."""
    tree = tl.program_id(0).to(tl.int64)
    first = tree * slots
    place = first
    node, length = tl.zeros([], tl.int64), tl.zeros([], tl.int64)
    tl.store(along_target + tree * (LENGTH + 1), tl.load(target_rows + place))
    for level in range(LENGTH):
        at = tree * LENGTH + level
        tl.store(along_draft + at, tl.load(draft_rows + place))
        tl.store(places + at, place)
        node = tl.where(node >= 0, tl.load(heirs + place), -1)
        place = first + tl.maximum(node, 0)
        length += (node >= 0).to(tl.int64)
        tl.store(line + at, node)
        tl.store(drafted + at, tl.where(node >= 0, tl.load(tokens + place), -1))
        tl.store(along_target + at + tree + 1, tl.load(target_rows + place))
    tl.store(lengths + tree, length)


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

"""The line that is picked in each tree, by Triton: laid out as a path, verified by `path_kernels`, and put out.

Shapes: B trees of S slots; a line has L = LENGTH levels below the root.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from otspec.verification.rules.block.path_kernels import PathUniforms, verify_path_by_kernels
from otspec.verification.tensors.rows import EXACT, lanes
from otspec.verification.trees.batch import Line, TreeBatch, TreeVerification
from otspec.verification.trees.layout import Layout


def empty_lines(layout: Layout) -> Line:
    """A line of each tree, to be laid by kernels."""
    trees, length, device = len(layout.valid), layout.length, layout.parent.device
    slots, tokens, draft_row, place = torch.empty((4, trees, length), dtype=torch.int64, device=device)
    target_row = torch.empty((trees, length + 1), dtype=torch.int64, device=device)
    count = torch.empty(trees, dtype=torch.int64, device=device)
    return Line(slots, tokens, count, target_row, draft_row, place)


@triton.jit
def line_of(
    tree,  # scalar
    line,  # `Line` of B trees
    LENGTH: tl.constexpr,
):  # fmt: skip
    """Where the line of a tree is to be laid."""
    at = tree * LENGTH
    return Line(
        line.slots + at, line.tokens + at, line.length + tree, line.target_row + at + tree, line.draft_row + at,
        line.place + at,
    )  # fmt: skip


@triton.jit
def lay_root(
    target_row, draft_row, place,  # scalars
    line,  # `Line` of the tree
    LENGTH: tl.constexpr, LEVELS: tl.constexpr,
):  # fmt: skip
    """A line that ends at the root: what any line has beyond its end."""
    levels = tl.arange(0, LEVELS)
    inside = levels < LENGTH
    tl.store(line.slots + levels, -1, mask=inside)
    tl.store(line.tokens + levels, -1, mask=inside)
    tl.store(line.draft_row + levels, draft_row, mask=inside)
    tl.store(line.place + levels, place, mask=inside)
    tl.store(line.target_row + levels, target_row, mask=levels <= LENGTH)
    tl.store(line.length, 0)


@triton.jit
def lay_slots(
    on, ends, depth, slot, token, target_row, draft_row, place,  # (LANES,)
    line,  # `Line` of the tree
):  # fmt: skip
    """The slots that are on the line, each at its level; `ends` marks the last one of them.

    Their tokens have the draft law and the factors of their parents: `draft_row` and `place` are those.
    """
    tl.store(line.slots + depth - 1, slot, mask=on)
    tl.store(line.tokens + depth - 1, token, mask=on)
    tl.store(line.draft_row + depth - 1, draft_row, mask=on)
    tl.store(line.place + depth - 1, place, mask=on)
    tl.store(line.target_row + depth, target_row, mask=on)
    tl.store(line.length + depth * 0, depth, mask=on & ends)


@triton.jit
def lay_first(
    firsts, parents, depths, tokens, target_rows, draft_rows,  # (B, S)
    line, drafted,  # (B, L)
    lengths,  # (B,)
    along_target,  # (B, L + 1)
    along_draft, places,  # (B, L)
    slots,  # scalar: S
    LENGTH: tl.constexpr, LEVELS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The line from the root on to the first child of the first child, a tree to a program.

    Lanes are slots.  All first children are read at once, so that they are at hand when the line is walked.
    """
    tree = tl.program_id(0).to(tl.int64)
    root = tree * slots
    laid = line_of(tree, Line(line, drafted, lengths, along_target, along_draft, places), LENGTH)
    slot = tl.arange(0, LANES)
    inside = slot < slots
    first = tl.load(firsts + root + slot, mask=inside, other=-1)
    depth = tl.load(depths + root + slot, mask=inside, other=0)
    token = tl.load(tokens + root + slot, mask=inside, other=0)
    target_row = tl.load(target_rows + root + slot, mask=inside, other=0)
    place = root + tl.load(parents + root + slot, mask=inside, other=0)
    root_target, root_draft = tl.load(target_rows + root), tl.load(draft_rows + root)
    draft_row = tl.load(draft_rows + place)
    lay_root(root_target, root_draft, root, laid, LENGTH, LEVELS)
    node = tl.zeros([], tl.int64)
    on = slot < 0
    for _ in range(LENGTH):
        node = tl.where(node >= 0, tl.load(firsts + root + tl.maximum(node, 0)), -1)
        on = on | (slot == node)
    tl.debug_barrier()
    lay_slots(on, (first < 0) | (depth == LENGTH), depth, slot, token, target_row, draft_row, place, laid)


def lay_first_by_kernels(batch: TreeBatch) -> Line:
    """The line of first children."""
    layout, (trees, slots) = batch.layout, batch.tokens.shape
    line = empty_lines(layout)
    layouts = (layout.first, layout.parent, layout.depth, batch.tokens, batch.target_row, batch.draft_row)
    lay_first[(trees,)](
        *(part.contiguous() for part in layouts), *line, slots, LENGTH=layout.length, LEVELS=lanes(layout.length + 1),
        LANES=lanes(slots), **EXACT,
    )  # fmt: skip
    return line


@triton.jit
def put_out(
    line, drafted,  # (B, L)
    accepted, token, valid,  # (B,)
    slots, tokens,  # (B, L)
    count, after,  # (B,)
    LENGTH: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """What a tree puts out: nothing of the line, and token 0, if it is not valid."""
    tree = tl.program_id(0).to(tl.int64)
    right = tl.load(valid + tree) != 0
    accept = tl.where(right, tl.load(accepted + tree), 0)
    lanes = tl.arange(0, LANES)
    inside = lanes < LENGTH
    at = tree * LENGTH + lanes
    there = inside & (lanes < accept)
    tl.store(slots + at, tl.load(line + at, mask=there, other=-1), mask=inside)
    tl.store(tokens + at, tl.load(drafted + at, mask=there, other=-1), mask=inside)
    tl.store(count + tree, accept)
    tl.store(after + tree, tl.where(right, tl.load(token + tree), 0))


def verify_line_by_kernels(batch: TreeBatch, factor: Tensor | None, line: Line, uniforms: Tensor) -> TreeVerification:
    """Block-verify one path of each tree.

    Parameters
    ----------
    batch : TreeBatch
    factor : Tensor, shape (B, S, k + 1), optional
        Of the law of the path's tokens, not of a small vocabulary; by default they have the draft laws.
    line : Line
    uniforms : Tensor of float64, shape (B, S + L, 3)
        As `otspec.verification.device.trees.verify_trees` uses them.
    """
    trees, length = line.slots.shape
    slots = uniforms.shape[1] - length
    count, after = torch.empty((2, trees), dtype=torch.int64, device=uniforms.device)
    uniforms = uniforms.contiguous()
    step = uniforms.stride(1)
    numbers = PathUniforms(uniforms[:, slots - 1 :], uniforms.stride(0), step, length * step + 1)
    flat = None if factor is None else factor.flatten(0, 1)
    found = verify_path_by_kernels(line, batch.target, batch.draft, numbers, factor=flat)
    taken, tokens = torch.empty((2, trees, length), dtype=torch.int64, device=uniforms.device)
    put_out[(trees,)](
        line.slots, line.tokens, found.length, found.token, batch.valid.contiguous().view(torch.int8), taken, tokens,
        count, after, LENGTH=length, LANES=lanes(length), **EXACT,
    )  # fmt: skip
    return TreeVerification(taken, tokens, count, after, batch.valid)

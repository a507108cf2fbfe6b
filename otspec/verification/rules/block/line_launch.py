"""Block verification of the line that was picked in each tree, by Triton's kernels, to what comes out."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from otspec.verification.rules.block.path_launch import Dealt, PathLaws, verify_path_by_kernels
from otspec.verification.tensors.reading import EXACT, lanes
from otspec.verification.trees.layout import Layout
from otspec.verification.trees.tree_laws import Line, TreeLaws


class Kept(NamedTuple):
    """What comes out of B trees, as `otspec.verification.device.trees.TreeVerification` has it."""

    slots: Tensor
    tokens: Tensor
    accepted: Tensor
    token: Tensor


def room_for(layout: Layout) -> Line:
    """A line of each tree, to be laid by kernels."""
    trees, length, device = len(layout.sound), layout.length, layout.parent.device
    slots, tokens, draft_row, place = torch.empty((4, trees, length), dtype=torch.int64, device=device)
    target_row = torch.empty((trees, length + 1), dtype=torch.int64, device=device)
    count = torch.empty(trees, dtype=torch.int64, device=device)
    return Line(slots, tokens, count, target_row, draft_row, place)


def lay_first_by_kernels(layout: Layout, laws: TreeLaws, tokens: Tensor) -> Line:
    """The line of first children.

    Parameters
    ----------
    layout : Layout
    laws : TreeLaws
    tokens : Tensor of int64, shape (B, S)
    """
    from otspec.verification.rules.block import line_kernels

    line, (trees, slots) = room_for(layout), tokens.shape
    given = (layout.first, layout.parent, layout.depth, tokens, laws.target_row, laws.draft_row)
    line_kernels.lay_first[(trees,)](
        *(part.contiguous() for part in given), *line, slots, LENGTH=layout.length, LEVELS=lanes(layout.length + 1),
        LANES=lanes(slots), **EXACT,
    )  # fmt: skip
    return line


def verify_line_by_kernels(laws: TreeLaws, factor: Tensor | None, line: Line, uniforms: Tensor) -> Kept:
    """Block-verify one path of each tree.

    Parameters
    ----------
    laws : TreeLaws
    factor : Tensor, shape (B, S, k + 1), optional
        Of the law of the path's tokens, not of a small vocabulary; by default they have the draft laws.
    line : Line
    uniforms : Tensor of float64, shape (B, S + L, 3)
        As `otspec.verification.device.trees.verify_trees` deals them.
    """
    from otspec.verification.rules.block import line_kernels

    trees, length = line.slots.shape
    slots = uniforms.shape[1] - length
    count, after = torch.empty((2, trees), dtype=torch.int64, device=uniforms.device)
    flat = None if factor is None else factor.flatten(0, 1)
    path = PathLaws(laws.target, line.target_row, laws.draft, line.draft_row, factor=flat, factor_row=line.place)
    uniforms = uniforms.contiguous()
    step = uniforms.stride(1)
    dealt = Dealt(uniforms[:, slots - 1 :], uniforms.stride(0), step, length * step + 1)
    found = verify_path_by_kernels(path, line.tokens, line.length, dealt)
    kept, put = torch.empty((2, trees, length), dtype=torch.int64, device=uniforms.device)
    line_kernels.put_out[(trees,)](
        line.slots, line.tokens, found.length, found.token, laws.sound.contiguous().view(torch.int8), kept, put, count,
        after, LENGTH=length, LANES=lanes(length), **EXACT,
    )  # fmt: skip
    return Kept(kept, put, count, after)

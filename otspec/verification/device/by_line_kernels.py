"""Block verification of the line that was picked in each tree, by Triton's kernels, to what comes out."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from otspec.verification.device.by_kernels import EXACT
from otspec.verification.device.by_path_kernels import Dealt, PathLaws, lanes, verify_path_by_kernels
from otspec.verification.device.tree_laws import TreeLaws


class Line(NamedTuple):
    """What comes out of B trees, as `otspec.verification.device.trees.TreeVerification` has it."""

    slots: Tensor
    tokens: Tensor
    accepted: Tensor
    token: Tensor


def verify_line_by_kernels(
    laws: TreeLaws, factor: Tensor | None, tokens: Tensor, heirs: Tensor, uniforms: Tensor
) -> Line:
    """Block-verify one path of each tree.

    Parameters
    ----------
    laws : TreeLaws
    factor : Tensor, shape (B, S, k + 1), optional
        Of the law of the path's tokens, not of a small vocabulary; by default they have the draft laws.
    tokens : Tensor of int64, shape (B, S)
    heirs : Tensor of int64, shape (B, S)
        The slot after each slot of the path, -1 at its end.
    uniforms : Tensor of float64, shape (B, S + L, 3)
        As `otspec.verification.device.trees.verify_trees` deals them.
    """
    from otspec.verification.device import line_kernels  # Triton may not be there

    trees, slots = tokens.shape
    length = uniforms.shape[1] - slots
    line, drafted, along_draft, places = torch.empty((4, trees, length), dtype=torch.int64, device=tokens.device)
    along_target = torch.empty((trees, length + 1), dtype=torch.int64, device=tokens.device)
    lengths, count, after = torch.empty((3, trees), dtype=torch.int64, device=tokens.device)
    line_kernels.lay_line[(trees,)](
        heirs.contiguous(), tokens, laws.target_row, laws.draft_row, line, drafted, along_target, along_draft, places,
        lengths, slots, LENGTH=length, **EXACT,
    )  # fmt: skip
    flat = None if factor is None else factor.flatten(0, 1)
    path = PathLaws(laws.target, along_target, laws.draft, along_draft, factor=flat, factor_row=places)
    uniforms = uniforms.contiguous()
    step = uniforms.stride(1)
    dealt = Dealt(uniforms[:, slots - 1 :], uniforms.stride(0), step, length * step + 1)
    found = verify_path_by_kernels(path, drafted, lengths, dealt)
    kept, put = torch.empty((2, trees, length), dtype=torch.int64, device=tokens.device)
    line_kernels.put_out[(trees,)](
        line, drafted, found.length, found.token, laws.sound.contiguous().view(torch.int8), kept, put, count, after,
        LENGTH=length, LANES=lanes(length), **EXACT,
    )  # fmt: skip
    return Line(kept, put, count, after)

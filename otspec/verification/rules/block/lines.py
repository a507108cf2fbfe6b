"""One path of each drafted tree, verified as a block: the rule of first paths, and the end of all that pick a path."""

from __future__ import annotations

import torch
from torch import Tensor

from otspec.verification.rules.block.tensors import verify_path
from otspec.verification.tensors.fixed_point import at
from otspec.verification.tensors.groups import group
from otspec.verification.trees.batch import Line, TreeBatch, TreeVerification
from otspec.verification.trees.layout import NONE, follow, take


def verify_first_path(batch: TreeBatch, uniforms: Tensor, kernels: bool) -> TreeVerification:
    """`block` on tensors: verify the path from first child to first child; arguments are as in `verify_line`."""
    if kernels:
        from otspec.verification.rules.block.line_kernels import lay_first_by_kernels

        line = lay_first_by_kernels(batch)
    else:
        line = batch.along(follow(batch.layout.first, batch.layout.length))
    return verify_line(batch, line, None, uniforms, kernels)


def verify_line(
    batch: TreeBatch, line: Line, factor: Tensor | None, uniforms: Tensor, kernels: bool
) -> TreeVerification:
    """Block-verify one path of each tree.

    Parameters
    ----------
    batch : TreeBatch
    line : Line
    factor : Tensor, shape (B, S, k + 1), optional
        Of the law of the path's tokens; by default they have the draft laws.
    uniforms : Tensor of float64, shape (B, S + L, 3)
        As `otspec.verification.device.trees.verify_trees` uses them.
    kernels : bool
        Whether Triton's kernels do it; with factors not of a vocabulary that is sorted.
    """
    if kernels:
        from otspec.verification.rules.block.line_kernels import verify_line_by_kernels

        return verify_line_by_kernels(batch, factor, line, uniforms)
    path = torch.nn.functional.pad(line.slots, (1, 0))
    of_levels = uniforms[:, batch.slots - 1 :]
    numbers = torch.cat((of_levels[:, :-1, 0], of_levels[:, -1:, 1]), dim=1)

    def along(level: Tensor) -> tuple[Tensor, Tensor]:
        there = at(path, level[:, None])
        slot = there.clamp(min=0)
        p, q = batch.target_at(there)[:, 0], batch.draft_at(slot)[:, 0]
        if factor is None:
            return p, q
        return p, q * take(factor, slot)[:, 0].gather(1, group(*(law[:, 0] for law in batch.as_they_came(slot))))

    accepted, token = verify_path(along, line.tokens, line.length, numbers)
    level = torch.arange(batch.layout.length, device=uniforms.device)
    return batch.put_out(torch.where(level < accepted[:, None], line.slots, NONE), token)

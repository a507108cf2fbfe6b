"""One token at a time: the drafts of slots that agree with all that was put out so far, verified as those of a row."""

from __future__ import annotations

import torch
from torch import Tensor

from otspec.verification.rules.buckets.buckets import verify_by_buckets
from otspec.verification.rules.interval.sorted_rows import verify_by_sorting
from otspec.verification.tensors.fixed_point import at, draw, running, to_units
from otspec.verification.tensors.rows import KERNELS
from otspec.verification.trees.batch import TreeBatch, TreeVerification
from otspec.verification.trees.layout import NONE, take


def verify_token_wise(batch: TreeBatch, uniforms: Tensor, by: str) -> TreeVerification:
    """`interval` on tensors: accept token by token while a slot agrees with the output.

    Parameters
    ----------
    batch : TreeBatch
    uniforms : Tensor of float64, shape (B, S + L, 3)
        As `otspec.verification.device.trees.verify_trees` uses them.
    by : str
        ``"sorting"``; ``"buckets"``, of which a token that no draft was accepted for is the last, whoever has it; or
        ``"triton"``, the latter by kernels.
    """
    if by == KERNELS:
        from otspec.verification.rules.token_wise.walk_kernels import verify_trees_by_kernels

        return verify_trees_by_kernels(batch, uniforms)
    layout, tokens = batch.layout, batch.tokens
    slots, widest = batch.slots, max(level.slots.shape[1] for level in layout.levels)
    node = torch.zeros_like(tokens[:, 0])
    alive = (layout.depth == 0).to(torch.bool)
    going, token = torch.ones_like(node, dtype=torch.bool), node
    finished, line = ~going, []
    for i in range(layout.length):
        drafted = layout.levels[i + 1].slots
        there = (drafted < slots) & at(alive, take(layout.parent, drafted))
        going = going & there.any(dim=1)
        rows = torch.cat((take(uniforms, drafted - 1), uniforms[:, slots - 1 + i, None]), dim=1)
        # Slots of one text have one law; but only those with children need to have a draft law.
        drawn_at = (alive & (layout.children > 0)).to(torch.int8).argmax(dim=1)
        p, q = batch.target_at(node[:, None])[:, 0], batch.draft_at(drawn_at[:, None])[:, 0]
        arguments = (p, q, torch.where(there, take(tokens, drafted), 0), rows, there)
        if by == "sorting":
            output = verify_by_sorting(*arguments).tokens
            goes_on = going
        else:
            output, accepted = verify_by_buckets(*arguments, most=widest)
            goes_on = going & (accepted >= 0)
        token = torch.where(going, output, token)
        alive = goes_on[:, None] & (layout.depth == i + 1) & at(alive, layout.parent) & (tokens == output[:, None])
        agree = alive.any(dim=1)
        node = torch.where(agree, alive.to(torch.int8).argmax(dim=1), node)
        line.append(torch.where(agree, node, NONE))
        # Where nobody agrees the token is the last; where nobody drafted, it is drawn below.
        finished = finished | (going & ~agree)
        going = going & agree
    after = draw(running(to_units(batch.target_at(node[:, None])[:, 0])), uniforms[:, -1, 1:2])[:, 0]
    return batch.put_out(torch.stack(line, dim=1), torch.where(finished, token, after))

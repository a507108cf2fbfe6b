"""Whether drafted trees are valid, by Triton: a program to a tree."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from otspec.verification.tensors.row_kernels import law_of
from otspec.verification.tensors.rows import EXACT, Reading, Rows, lanes, spread
from otspec.verification.trees.layout import Layout

TOGETHER = 256
"""Slots that one program checks together."""


@triton.jit
def find_valid(
    p, p_high, p_first, p_heat, p_scale, p_valid,  # (R, V), and of `Rows` (R,)
    q, q_high, q_first, q_heat, q_scale, q_valid,  # (R', V), and of `Rows` (R',)
    laid,  # (B,)
    parent, depth, children, target_row, draft_row, tokens,  # (B, S)
    valid,  # (B,)
    safe_target, safe_draft, safe_tokens,  # (B, S)
    slots, p_count, q_count, vocab,  # scalars: S, R, R', V
    LOGITS: tl.constexpr, LEAVES: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Whether all slots have their laws, with LEAVES also those without children, and tokens that could be drawn.

    Safe are rows and tokens that exist: what they were, in trees that are valid.
    """
    draft = Rows(Reading(q, q_high, q_first, q_heat, q_scale), q_valid)
    tree = tl.program_id(0)
    base = tree.to(tl.int64) * slots
    wrong = tl.zeros([LANES], tl.int32)
    for begin in range(0, slots, LANES):
        lanes = begin + tl.arange(0, LANES)
        inside = lanes < slots
        level = tl.load(depth + base + lanes, mask=inside, other=-1)
        inner = tl.load(children + base + lanes, mask=inside, other=0) > 0
        checked = (level >= 0) & (inner | LEAVES)
        row = tl.load(target_row + base + lanes, mask=inside, other=0)
        known = (row >= 0) & (row < p_count)
        tl.store(safe_target + base + lanes, tl.where(known, row, 0), mask=inside)
        wrong += (checked & ~(known & (tl.load(p_valid + tl.where(known, row, 0)) != 0))).to(tl.int32)
        row = tl.load(draft_row + base + lanes, mask=inside, other=0)
        known = (row >= 0) & (row < q_count)
        tl.store(safe_draft + base + lanes, tl.where(known, row, 0), mask=inside)
        wrong += (inner & ~(known & (tl.load(q_valid + tl.where(known, row, 0)) != 0))).to(tl.int32)
        drafted = level > 0
        above = tl.load(parent + base + lanes, mask=drafted, other=0)
        row = tl.load(draft_row + base + above)
        row = tl.where((row >= 0) & (row < q_count), row, 0)
        token = tl.load(tokens + base + lanes, mask=drafted, other=0)
        known = (token >= 0) & (token < vocab)
        tl.store(safe_tokens + base + lanes, tl.where(drafted & known, token, 0), mask=inside)
        chance = law_of(draft, row, tl.where(known, token, 0), vocab, LOGITS)
        wrong += (drafted & ~(known & (chance > 0))).to(tl.int32)
    right = (tl.sum(wrong) == 0) & (tl.load(laid + tree) != 0)
    tl.store(valid + tree, right.to(tl.int8))


def validate_by_kernels(
    layout: Layout,
    target: Rows,
    target_row: Tensor,
    draft: Rows,
    draft_row: Tensor,
    tokens: Tensor,
    *,
    logits: bool = False,
    leaves: bool = True,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`checking.validate`, also for laws that come as logits, and trees that have no target laws at their leaves.

    Parameters
    ----------
    layout : Layout
    target, draft : Rows
    target_row, draft_row, tokens : Tensor of int64, shape (B, S)
    logits, leaves : bool
        As `TreeBatch` has them.

    Returns
    -------
    valid : Tensor of bool, shape (B,)
    target_row, draft_row, tokens : Tensor of int64, shape (B, S)
    """
    count, slots = tokens.shape
    valid = torch.empty(count, dtype=torch.int8, device=tokens.device)
    safe = torch.empty((3, count, slots), dtype=torch.int64, device=tokens.device)
    find_valid[(count,)](
        *spread(target), *spread(draft), layout.valid.view(torch.int8), layout.parent, layout.depth, layout.children,
        target_row, draft_row, tokens, valid, *safe, slots, len(target.valid), len(draft.valid), target.vocab,
        LOGITS=logits, LEAVES=leaves, LANES=min(lanes(slots), TOGETHER), **EXACT,
    )  # fmt: skip
    return valid.view(torch.bool), *safe

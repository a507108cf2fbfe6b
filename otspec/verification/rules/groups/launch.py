"""Tokens of trees in groups, by Triton's kernels: what sharing needs to know of the laws, and whether they are laws."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from otspec.verification.rules.groups.groups import LESS, MORE, PIECES, RARE, group_count
from otspec.verification.tensors.reading import BLOCK, EXACT, Rows, kernels_for, lanes, read_scaled, spread
from otspec.verification.trees.layout import Layout
from otspec.verification.trees.tree_laws import Groups

FLAT = tuple(number for piece in PIECES for number in piece)
"""As kernels take them."""
MOST_TILES, ENOUGH = 32, 8192
"""Of programs that put tokens into groups: how often they read some at most, and how many there are before they do."""


def group_by_kernels(target: Tensor, draft: Tensor, target_row: Tensor, draft_row: Tensor, layout: Layout) -> Groups:
    """The groups of all slots, B * S, of laws as they came; see `groups.grouped`."""
    counts = _histograms(target, draft, target_row, draft_row, layout)
    return Groups(*counts[:, :, : group_count(target.shape[1])])


def check_by_groups(
    target: Tensor, draft: Tensor, target_row: Tensor, draft_row: Tensor, layout: Layout, drifts: tuple[float, float]
) -> tuple[Rows, Rows, Groups]:
    """What slots have as laws, as `checked_rows` has them, and their groups, in one pass over both.

    Of rows that no slot has nothing is known.
    """
    target, draft = target.contiguous(), draft.contiguous()
    counts = _histograms(target, draft, target_row, draft_row, layout)
    count, device = group_count(target.shape[1]), target.device
    scales = [torch.empty(len(law), dtype=torch.float64, device=device) for law in (target, draft)]
    sound = [torch.empty(len(law), dtype=torch.int8, device=device) for law in (target, draft)]
    _kernels(target).settle_groups[(target_row.numel(),)](
        *counts, target_row, draft_row, layout.children.contiguous(), layout.depth.contiguous(),
        scales[0], sound[0], scales[1], sound[1], len(target), len(draft), P_DRIFT=drifts[0], Q_DRIFT=drifts[1],
        GROUPS=count, LANES=lanes(count), **EXACT,
    )  # fmt: skip
    p, q = (
        Rows(read_scaled(law, scale), right.view(torch.bool))
        for law, scale, right in zip((target, draft), scales, sound, strict=True)
    )
    return p, q, Groups(*counts[:, :, :count])


def _histograms(target: Tensor, draft: Tensor, target_row: Tensor, draft_row: Tensor, layout: Layout) -> Tensor:
    """Sums of p and q over the groups of all slots, and over all tokens, twice, shape (2, B * S, k + 2)."""
    vocab, pairs = target.shape[1], target_row.numel()
    counts = torch.zeros((2, pairs, group_count(vocab) + 2), dtype=torch.int64, device=target.device)
    block, tiles = 256, MOST_TILES  # as quick as it gets in the interpreter
    if target.device.type == "cuda":
        # Of a warp the slowest lane is slow, of several that of all; and more than one token to a thread would be added
        # up by rows or by columns, and all numbers made twice.
        block = 32
        while tiles > 1 and pairs * -(-vocab // (block * tiles)) < ENOUGH:
            tiles //= 2
    _kernels(target).add_to_groups[(pairs, -(-vocab // (block * tiles)))](
        target.contiguous(), draft.contiguous(), target_row, draft_row, layout.children.contiguous(),
        layout.depth.contiguous(), *counts, len(target), len(draft), vocab, **of_groups(vocab), BLOCK=block,
        TILES=tiles, TOGETHER=target.device.type == "cuda", num_warps=max(block // 32, 1), **EXACT,
    )  # fmt: skip
    return counts


def look_up_by_kernels(
    target: Rows, draft: Rows, target_row: Tensor, draft_row: Tensor, layout: Layout, tokens: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """p and q of the tokens of all slots, shape (B * S,), under the rows of their parents, and their groups."""
    values = target.read.values
    vocab, count = values.shape[1], tokens.numel()
    p, q = torch.empty((2, count), dtype=torch.float64, device=values.device)
    groups = torch.empty(count, dtype=torch.int64, device=values.device)
    _kernels(values).look_up_groups[(-(-count // BLOCK),)](
        *spread(target), *spread(draft), target_row, draft_row, layout.parent.contiguous(), tokens.contiguous(),
        p, q, groups, count, tokens.shape[1], vocab, **of_groups(vocab), BLOCK=min(BLOCK, lanes(count)), **EXACT,
    )  # fmt: skip
    return p, q, groups


def of_groups(vocab: int) -> dict[str, Any]:
    """What is fixed about groups when kernels are compiled."""
    return {"GROUPS": group_count(vocab), "PIECES": FLAT, "RARE": RARE, "LESS": LESS, "MORE": MORE}


def _kernels(values: Tensor) -> Any:
    kernels_for(values)  # says what is missing
    from otspec.verification.rules.groups import kernels

    return kernels

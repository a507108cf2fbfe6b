"""Drafts truncated to k tokens: the `interval` rule on these and one more that stands for all others."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from otspec.verification.rules.interval.sorted_rows import verify_by_sorting
from otspec.verification.tensors.fixed_point import at, draw, running, to_units


def verify_truncated_rows(
    p: Tensor, support: Tensor, again: Tensor, q: Tensor, slots: Tensor, uniforms: Tensor
) -> tuple[Tensor, Tensor]:
    """Output token of each row, and which draft it is, or -1; shapes (B,).

    Parameters
    ----------
    p : Tensor of float64, shape (B, V)
    support : Tensor of int64, shape (B, k)
        Tokens.
    again : Tensor of bool, shape (B, k)
        Which of them stand there a second time, and count for nothing: their q is 0.
    q : Tensor of float64, shape (B, k)
        Their draft laws.
    slots : Tensor of int64, shape (B, n)
        Where in the support each draft stands.
    uniforms : Tensor of float64, shape (B, n + 1, 3)
    """
    outside = running(to_units(p.scatter(1, support, 0.0)))
    inside = p.gather(1, support).masked_fill(again, 0.0)
    reduced = torch.cat((inside, (1.0 - inside.sum(dim=1, keepdim=True)).clamp(min=0)), dim=1)
    slot, accepted, share = verify_by_sorting(reduced, pad(q, (0, 1)), slots, uniforms)

    # None of the others can be drafted: a draw among them is a draw from p, at the same share of their sum.
    other = draw(outside, share[:, None])
    listed = at(support, slot[:, None].clamp(max=support.shape[1] - 1))
    return torch.where(slot[:, None] < support.shape[1], listed, other)[:, 0], accepted

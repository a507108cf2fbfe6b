"""Block verification [sun2024block] of one chain per row, for engines that draft one.

The figures are those of `otspec.paths.block`; nothing here waits for the device.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from otspec.verification.device.fixed_point import first_above, running, to_units


class Chains(NamedTuple):
    """What comes out of the verification of B chains; shapes (B,)."""

    accepted: Tensor
    """How many of the drafted tokens are accepted."""
    token: Tensor
    """The token after them; 0 in rows that are not sound."""
    sound: Tensor
    """Whether all laws of the row are laws: no NaN, nothing negative, some mass."""


def verify_chains(target: Tensor, draft: Tensor, tokens: Tensor, uniforms: Tensor) -> Chains:
    """Accept the longest prefix that block verification allows, and draw the token after it.

    Parameters
    ----------
    target : Tensor, shape (B, L + 1, V)
        Target laws after 0 to L of the drafted tokens.
    draft : Tensor, shape (B, L, V)
        The laws that the tokens were really drawn from.
    tokens : Tensor of integers, shape (B, L)
        Drafted tokens.  One that is no token, or has q = 0, is never accepted.
    uniforms : Tensor of float64, shape (B, L + 1)
        Numbers in [0, 1): whether the first token, the first two, ... are accepted, and what is drawn after them.
    """
    p, q = target.double(), draft.double()
    sound = _are_laws(p) & _are_laws(q)
    p, q = (torch.where(sound[:, None, None], laws, 1.0) for laws in (p, q))
    p, q = (laws / laws.sum(dim=2, keepdim=True) for laws in (p, q))
    length = tokens.shape[1]
    weights, accepted = [torch.ones_like(uniforms[:, 0])], torch.zeros_like(tokens[:, 0], dtype=torch.int64)
    for i in range(length):
        drafted = tokens[:, i : i + 1].long()
        known = drafted.clamp(0, p.shape[2] - 1)
        there, here = p[:, i].gather(1, known)[:, 0], q[:, i].gather(1, known)[:, 0]
        possible = (drafted == known)[:, 0] & (here > 0)
        weights.append(torch.where(possible, (weights[-1] * there / here).clamp(max=1.0), 0.0))
    weight = torch.stack(weights, dim=1)
    for i in range(1, length + 1):
        stop = weight[:, i]
        if i < length:
            missing = (weight[:, i : i + 1] * p[:, i] - q[:, i]).clamp(min=0).sum(dim=1)
            refused = 1.0 - weight[:, i]
            stop = torch.where(refused > 0, missing / (missing + refused), 1.0)
        accepted = torch.where(uniforms[:, i - 1] < stop, i, accepted)  # the longest counts

    row = accepted[:, None, None].expand(-1, 1, p.shape[2])
    after = p.gather(1, row)[:, 0]
    given = torch.nn.functional.pad(q, (0, 0, 0, 1)).gather(1, row)[:, 0]
    rest = running(to_units((weight.gather(1, accepted[:, None]) * after - given).clamp(min=0)))
    # After the whole chain, and where nothing is left up to rounding, the draw is from p itself.
    whole = (accepted[:, None] == length) | (rest[:, -1:] == 0)
    sums = torch.where(whole, running(to_units(after)), rest)
    total = sums[:, -1:]
    drawn = first_above(sums, torch.minimum((uniforms[:, -1:] * total).to(torch.int64), total - 1))
    token = drawn.clamp(max=p.shape[2] - 1)[:, 0]
    return Chains(torch.where(sound, accepted, 0), torch.where(sound, token, 0), sound)


def _are_laws(laws: Tensor) -> Tensor:
    totals = laws.sum(dim=2)
    return ((laws >= 0).all(dim=2) & (totals > 0) & (totals < torch.inf)).all(dim=1)

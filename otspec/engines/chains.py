"""Block verification [sun2024block] of one chain per row, for engines that draft one.

The figures are those of `otspec.paths.block`; nothing here waits for the device, and no more than one law of each
chain is held at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from otspec.verification.device.fixed_point import first_above, running, to_units

Reader = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From a place in each chain, shape (B,), to p and q there, float64 of shape (B, V), not yet divided by their totals.

Where no token was drafted, q is 0 everywhere; what is read beyond the end of a chain is not used."""


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
    rows, length = tokens.shape
    row = torch.arange(rows, device=tokens.device)

    def read(place: Tensor) -> tuple[Tensor, Tensor]:
        given = draft[row, place.clamp(max=length - 1)].double()
        return target[row, place].double(), torch.where((place < length)[:, None], given, 0.0)

    whole = torch.full((rows,), length, dtype=torch.int64, device=tokens.device)
    return verify_read(read, tokens, whole, uniforms)


def verify_read(read: Reader, tokens: Tensor, lengths: Tensor, uniforms: Tensor) -> Chains:
    """`verify_chains` for chains of several lengths, and laws that are made where they are needed.

    Parameters
    ----------
    read : callable
        Laws at a place of each chain.  It is called for the places 0 to L of all chains, and for one of each after.
    tokens : Tensor of integers, shape (B, L)
        Drafted tokens, of which the first few of each row count.
    lengths : Tensor of int64, shape (B,)
        How many of them.  A chain of length 0 is a draw from its law at place 0.
    uniforms : Tensor of float64, shape (B, L + 1)
    """
    accepted, sound = torch.zeros_like(lengths), torch.ones_like(lengths, dtype=torch.bool)
    weights = [torch.ones_like(uniforms[:, 0])]
    for i in range(tokens.shape[1] + 1):
        p, q, right = _laws(read, torch.full_like(lengths, i), i >= lengths)
        sound = sound & (right | (i > lengths))
        weight = weights[-1]
        if i > 0:
            missing, refused = (weight[:, None] * p - q).clamp(min=0).sum(dim=1), 1.0 - weight
            stop = torch.where(refused > 0, missing / (missing + refused), 1.0)
            stop = torch.where(lengths == i, weight, stop)
            # The longest counts.
            accepted = torch.where((uniforms[:, i - 1] < stop) & (i <= lengths), i, accepted)
        if i < tokens.shape[1]:
            drafted = tokens[:, i : i + 1].long()
            known = drafted.clamp(0, p.shape[1] - 1)
            there, here = p.gather(1, known)[:, 0], q.gather(1, known)[:, 0]
            possible = (drafted == known)[:, 0] & (here > 0)
            weights.append(torch.where(possible, (weight * there / here).clamp(max=1.0), 0.0))

    p, q, _ = _laws(read, accepted, accepted == lengths)
    weight = torch.stack(weights, dim=1).gather(1, accepted[:, None])
    rest = running(to_units((weight * p - q).clamp(min=0)))
    # After the whole chain, and where nothing is left up to rounding, the draw is from p itself.
    whole = (accepted == lengths)[:, None] | (rest[:, -1:] == 0)
    sums = torch.where(whole, running(to_units(p)), rest)
    total = sums[:, -1:]
    drawn = first_above(sums, torch.minimum((uniforms[:, -1:] * total).to(torch.int64), total - 1))
    token = drawn.clamp(max=p.shape[1] - 1)[:, 0]
    return Chains(torch.where(sound, accepted, 0), torch.where(sound, token, 0), sound)


def _laws(read: Reader, place: Tensor, ended: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Both laws at a place of each chain, and whether they are laws: even ones in their place where they are not."""
    p, q = read(place)
    totals = p.sum(dim=1, keepdim=True), q.sum(dim=1, keepdim=True)
    known = [
        (law >= 0).all(dim=1, keepdim=True) & (total < torch.inf) for law, total in zip((p, q), totals, strict=True)
    ]
    none = (totals[1] == 0) & ended[:, None]
    right = known[0] & (totals[0] > 0) & known[1] & ((totals[1] > 0) | none)
    even = 1.0 / p.shape[1]
    p, q = torch.where(right, p / totals[0], even), torch.where(right, q / totals[1].masked_fill(none, 1.0), even)
    return p, q, right[:, 0]

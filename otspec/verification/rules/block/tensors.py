"""Block verification [sun2024block] of one path of each row, against the laws that its tokens have.

The figures are those of `otspec.verification.rules.block.block`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from otspec.verification.tensors.fixed_point import at, draw, running, to_units

Laws = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From a number of tokens of each path, shape (B,), to the target law of the next token and the law that the path's own
next token has, shape (B, V) both."""


class Accepted(NamedTuple):
    """What is accepted of each of B paths."""

    length: Tensor
    """Shape (B,), int64: how many of its tokens."""
    token: Tensor
    """Shape (B,), int64: the token after them."""


def verify_path(laws: Laws, tokens: Tensor, length: Tensor, uniforms: Tensor) -> Accepted:
    """Accept the longest prefix that block verification allows, and draw the token after it.

    Parameters
    ----------
    laws : callable
        Called for 0, 1, ..., L - 1 tokens of all paths, whatever their lengths, and then for as many of each as are
        accepted.  After a whole path, and beyond its end, the second law may be any.
    tokens : Tensor of int64, shape (B, L)
        Of the paths.  One that is no token, or whose proposal is 0, is never accepted.
    length : Tensor of int64, shape (B,)
        Of each path, L at most.
    uniforms : Tensor of float64, shape (B, L + 1)
        Numbers in [0, 1): whether the first token, the first two, ... are accepted, and what is drawn after them.
    """
    most = tokens.shape[1]
    weights, accepted = [torch.ones_like(uniforms[:, 0])], torch.zeros_like(length)
    for i in range(most):
        p, g = laws(torch.full_like(length, i))
        if i:
            accepted = torch.where(_stops(p, g, weights[-1], length == i, uniforms[:, i - 1]), i, accepted)
        drafted = tokens[:, i : i + 1]
        known = drafted.clamp(0, p.shape[1] - 1)
        there, here = at(p, known)[:, 0], at(g, known)[:, 0]
        possible = (drafted == known)[:, 0] & (here > 0) & (i < length)
        weights.append(torch.where(possible, (weights[-1] * there / here).clamp(max=1.0), 0.0))
    if most:
        accepted = torch.where((length == most) & (uniforms[:, most - 1] < weights[-1]), most, accepted)

    weight = torch.stack(weights, dim=1)
    after, drafted_from = laws(accepted)
    rest = running(to_units((at(weight, accepted[:, None]) * after - drafted_from).clamp(min=0)))
    # After the whole path, and where nothing is left up to rounding, the draw is from p itself.
    whole = (accepted == length)[:, None] | (rest[:, -1:] == 0)
    return Accepted(accepted, draw(torch.where(whole, running(to_units(after)), rest), uniforms[:, -1:])[:, 0])


def _stops(p: Tensor, g: Tensor, weight: Tensor, ends: Tensor, uniform: Tensor) -> Tensor:
    """Whether to stop after so many tokens, if nothing longer is accepted."""
    missing = (weight[:, None] * p - g).clamp(min=0).sum(dim=1)
    refused = 1.0 - weight
    stop = torch.where(refused > 0, missing / (missing + refused), 1.0)
    return uniform < torch.where(ends, weight, stop)

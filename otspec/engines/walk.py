"""A walk down drafted trees against the target alone, for engines that draft without a law; in place, as they ask.

A tree here is its tokens and `Links`, not a `TreeBatch`: that has the laws that drafts were drawn from, of which there
are none, and is checked, which an engine does not ask for.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from otspec.verification.tensors.fixed_point import at, first_above, running, to_units
from otspec.verification.trees.layout import Links


class Coins(NamedTuple):
    """What decides a walk down B trees of N nodes, beside the laws."""

    each: Tensor
    """Shape (B, N): which child of a node is accepted, if any."""
    last: Tensor
    """Shape (B,): what is drawn after the last."""
    threshold_single: float
    threshold_acc: float


class Filled(NamedTuple):
    """What is filled in, and at which places."""

    places: Tensor
    """Shape (B, N), integers: where each node stands in `predicts`."""
    predicts: Tensor
    """Shape (B * N,), int32: the token after each node of the path that is accepted."""
    accept_index: Tensor
    """Shape (B, D + 1), int32: `places` of the root and of the accepted nodes."""
    accepted: Tensor
    """Shape (B,), int32: the number of accepted nodes, without the root."""


def walk_down(tokens: Tensor, links: Links, target: Tensor, coins: Coins, filled: Filled) -> None:
    """Accept a child of the root, a child of that one, and so on; `walk_kernels.walk_down_by_kernels`, by torch.

    Parameters
    ----------
    tokens : Tensor of int64, shape (B, N)
    links : Links
    target : Tensor, shape (B, N, V)
        Target laws at the nodes.
    coins : Coins
    filled : Filled
    """
    rows, nodes = tokens.shape
    places, predicts, accept_index, _ = filled
    children, siblings = links[:2]
    deepest = accept_index.shape[1] - 1
    zero = torch.zeros((rows, 1), dtype=torch.int64, device=tokens.device)
    parent, child, accepted, place = zero, at(children, zero), zero, at(places, zero)
    passed = torch.zeros((rows, 1), dtype=torch.float64, device=tokens.device)
    left = target[:, 0].double()
    accept_index[:, :1] = place.to(accept_index.dtype)
    for _ in range(nodes - 1):  # no node is looked at twice
        going = (child >= 0) & (accepted < deepest)
        node = child.clamp(min=0)
        token = at(tokens, node)
        chance = _rows(target, parent).gather(1, token)
        passed = torch.where(going, passed + chance, passed)
        coin = at(coins.each, parent).double()
        # Strictly below, so that no coin accepts a token of probability 0; `threshold_single` = 0 does.
        taken = going & ((coin * coins.threshold_acc < passed) | (chance >= coins.threshold_single))
        refused = going & ~taken
        left = torch.where(refused, left.scatter(1, token, 0.0), left)

        _put(predicts, place, token, taken)
        accepted = accepted + taken
        place = torch.where(taken, at(places, node), place)
        accept_index.scatter_(1, accepted, torch.where(taken, place.to(accept_index.dtype), at(accept_index, accepted)))
        left = torch.where(taken, _rows(target, node), left)
        passed = torch.where(taken, 0.0, passed)
        parent = torch.where(taken, node, parent)
        child = torch.where(taken, at(children, node), child)
        child = torch.where(refused, at(siblings, node), child)
    filled.accepted.copy_(accepted[:, 0])
    whole = _rows(target, parent)
    rest = left.sum(dim=1, keepdim=True)  # 0: every token was refused, by rounding
    sums = running(to_units(torch.where(rest > 0, left / rest, whole / whole.sum(dim=1, keepdim=True))))
    total = sums[:, -1:]
    drawn = (coins.last.double().unsqueeze(1) * total).to(torch.int64)
    token = first_above(sums, torch.minimum(drawn, total - 1)).clamp(max=left.shape[1] - 1)
    _put(predicts, place, token, torch.ones_like(place, dtype=torch.bool))


def _rows(laws: Tensor, node: Tensor) -> Tensor:
    """The law at one node of each tree, float64, shape (B, V)."""
    return laws.gather(1, node.unsqueeze(2).expand(-1, 1, laws.shape[2]))[:, 0].double()


def _put(flat: Tensor, place: Tensor, value: Tensor, where: Tensor) -> None:
    """Write one value of each row at its place in a flat tensor."""
    index = place[:, 0]
    flat.scatter_(0, index, torch.where(where[:, 0], value[:, 0].to(flat.dtype), flat.gather(0, index)))

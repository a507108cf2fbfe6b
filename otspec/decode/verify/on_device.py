"""Verification where the models are: only what is accepted comes to the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import torch
from torch.nn.functional import pad

from otspec.decode.base.drafts import AcceptedSlots, Drafts, Launched, Outcome, first_of_prefixes
from otspec.decode.base.transfers import HostCopy, to_device
from otspec.decode.verify.captured import DeviceRule, Inputs, verify_in_one
from otspec.decode.verify.verifiers import AcceptedTokens
from otspec.errors import ProblemError
from otspec.laws import IntArray
from otspec.schemes import IID
from otspec.verification import Block, Match, Nested, PathVerifier, TokenWise
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology

PLACES = (None, "device", "host")
"""Where trees are verified; None is the device where that is no CPU."""


def device_rule(verifier: PathVerifier, device: torch.device, verify_on: str | None) -> DeviceRule | None:
    """The rule that stands for a verifier on the device of the models; None where the host verifies.

    Raises
    ------
    ProblemError
        If there is no such place, or the device is to verify by a rule that it does not have.
    """
    if verify_on not in PLACES:
        raise ProblemError(f"verify_on is {verify_on!r}; pass 'device', 'host', or None for what suits the models")
    if verify_on == "host" or (verify_on is None and device.type == "cpu"):
        return None
    if type(verifier) is Match:  # the decoding loop draws on the device, and compares a few tokens on the host
        return None
    found = _counterpart(verifier)
    if found is None and verify_on == "device":
        raise ProblemError(
            f"verify_on is 'device', and the rule is {verifier!r}; on the device there are nested, block and interval "
            "for i.i.d. drafts; pass verify_on='host' for others"
        )
    return found


def _counterpart(verifier: PathVerifier) -> DeviceRule | None:
    if type(verifier) is Nested:  # labels on a grid are a rule of their own, of so many parts whatever its own are
        return DeviceRule("nested", float(verifier.sigma))
    if type(verifier) is Block:
        return DeviceRule("block")
    if type(verifier) is TokenWise and verifier.solver == "interval" and verifier.scheme is IID:
        return DeviceRule("interval")
    return None


def can_be_stacked(drafts: Drafts) -> bool:
    """Whether all trees have one even shape and a token in every slot, drawn from one law a node."""
    shape = drafts.trees[0].shape
    whole = shape.offsets[-1] - shape.offsets[-2]
    alike = all(tree.shape == shape and tree.count == whole for tree in drafts.trees)
    return shape.depth > 0 and not shape.each and alike and drafts.rows is None


def verify_on_device(
    rule: DeviceRule, drafts: Drafts, laws: torch.Tensor, generator: torch.Generator
) -> list[AcceptedTokens]:
    """What the texts get, by one copy of a few numbers a text to the host.

    Parameters
    ----------
    rule : DeviceRule
    drafts : Drafts
        Such as `can_be_stacked`.
    laws : Tensor, shape (N, V)
        Target laws at the nodes of all trees, one tree after the other.
    generator : torch.Generator
        Of the device.

    Raises
    ------
    ProblemError
        If a law is invalid.
    """
    shape, node = drafts.trees[0].shape, _nodes_of_slots(drafts.trees)
    tokens = np.stack([tree.token[mine] for mine, tree in zip(node, drafts.trees, strict=True)])
    first = np.cumsum([0, *(tree.size for tree in drafts.trees[:-1])])
    first_inner = np.cumsum([0, *(tree.inner for tree in drafts.trees[:-1])])
    inner = node[:, : shape.offsets[-2]]
    slots = np.concatenate((tokens, node + first[:, None], inner + first_inner[:, None]), axis=1)
    trees = Inputs(
        laws, drafts.over(laws.shape[1]), _uniforms(shape, len(node), laws, generator), torch.from_numpy(slots)
    )
    return _accepted(rule, trees, shape, verify_in_one(rule, trees, shape.branching).cpu().numpy(), node)


def verify_launched(
    rule: DeviceRule, drafts: Launched, laws: torch.Tensor, generator: torch.Generator
) -> tuple[Callable[[Sequence[Topology]], list[AcceptedTokens]], Outcome]:
    """The same of drafts that the host has not seen.

    Parameters
    ----------
    rule : DeviceRule
    drafts : Launched
    laws : Tensor, shape (B, S or more, V)
        Target laws at all slots.
    generator : torch.Generator
        Of the device.

    Returns
    -------
    callable
        Takes the trees, such as `can_be_stacked`, and waits.
    Outcome
        The same on the device.
    """
    shape, (batch, _, vocab) = drafts.shape, laws.shape
    own, drawn_from = _rows_of_slots(shape, batch, laws.device)
    rows = own if shape.slots == shape.depth + 1 else own[:, :1] + first_of_prefixes(shape, drafts.tokens)
    slots = torch.cat((pad(drafts.tokens, (1, 0)), rows, drawn_from), dim=1)
    target = laws[:, : shape.slots].flatten(0, 1)
    trees = Inputs(target, drafts.over(vocab), _uniforms(shape, batch, target, generator), slots)
    came = verify_in_one(rule, trees, shape.branching)
    found = HostCopy(came)

    def see(merged: Sequence[Topology]) -> list[AcceptedTokens]:
        return _accepted(rule, trees, shape, found.numpy(), _nodes_of_slots(merged))

    return see, Outcome(came, slots_of_rule)


def slots_of_rule(shape: Shape, tokens: torch.Tensor, came: torch.Tensor) -> AcceptedSlots:
    """What a rule accepts, of what it puts out, shape (B, L + 2)."""
    return AcceptedSlots(came[:, :-2], came[:, -2])


def followed_slots(shape: Shape, tokens: torch.Tensor, chosen: torch.Tensor) -> AcceptedSlots:
    """The longest drafted prefix of what the target writes, without a synchronisation.

    Parameters
    ----------
    shape : Shape
    tokens : Tensor of int, shape (B, S - 1)
        That were drafted.
    chosen : Tensor of int, shape (B, S or more)
        What the target puts after each slot.
    """
    parent, line, slot = _places_of_slots(shape, chosen.device)
    agrees = (tokens >= 0) & (tokens == chosen[:, parent])
    reached = (pad(agrees, (1, 0), value=True).unsqueeze(1) | ~line).all(dim=-1)
    none = shape.slots
    first = torch.where(pad(reached, (0, 1))[:, slot], slot, none).amin(dim=2)
    last = torch.where(first < none, first, 0).amax(dim=1, keepdim=True)  # deeper slots have larger numbers
    return AcceptedSlots(torch.where(first < none, first, -1), chosen.gather(1, last).squeeze(1))


@cache
def _places_of_slots(shape: Shape, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The parents of slots, (S - 1,), their lineages, (S, S), and those of each level, (L, W), S behind the last.

    Cached for good: graphs have the addresses.
    """
    of_level = np.full((shape.depth, np.diff(shape.offsets).max()), shape.slots)
    for own, start, stop in zip(of_level, shape.offsets[1:-1], shape.offsets[2:], strict=True):
        own[: stop - start] = np.arange(start, stop)
    parent, line, slot = (to_device(part, device) for part in (shape.parent[1:], shape.lineage, of_level))
    return parent, line, slot


@cache
def _rows_of_slots(shape: Shape, batch: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows of laws of all slots, and of those that have children, one text after the other: (B, S) and (B, I)."""
    counts = shape.slots, shape.offsets[-2]
    each, inner = (to_device(np.arange(batch * count).reshape(batch, count), device) for count in counts)
    return each, inner


def _nodes_of_slots(trees: Sequence[Topology]) -> IntArray:
    """The node of each slot of trees of one shape, shape (B, S)."""
    node = np.zeros((len(trees), trees[0].shape.slots), dtype=np.int64)
    for mine, tree in zip(node, trees, strict=True):
        mine[tree.draw] = tree.node
    return node


def _uniforms(shape: Shape, batch: int, laws: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """What the rules draw by, shape (B, S + L, 3)."""
    size = batch, shape.slots + shape.depth, 3
    return torch.rand(size, dtype=torch.float64, device=laws.device, generator=generator)


def _accepted(rule: DeviceRule, trees: Inputs, shape: Shape, came: IntArray, node: IntArray) -> list[AcceptedTokens]:
    """What the texts get by what a rule put out, shape (B, L + 2)."""
    if not came[:, -1].all():
        trees.verify(rule, shape.branching, check=True)  # names what is wrong
    return [
        AcceptedTokens(own[picked[picked >= 0]].tolist(), int(token))
        for own, picked, token in zip(node, came[:, :-2], came[:, -2], strict=True)
    ]

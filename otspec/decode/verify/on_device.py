"""Verification where the models are: only what is accepted comes to the host."""

from __future__ import annotations

import numpy as np
import torch

from otspec.decode.base.drafts import Drafts
from otspec.decode.verify.captured import DeviceRule, Inputs, verify_in_one
from otspec.decode.verify.verifiers import AcceptedTokens
from otspec.errors import ProblemError
from otspec.schemes import IID
from otspec.verification import Block, Match, Nested, PathVerifier, TokenWise

PLACES = (None, "device", "host")
"""Where trees are verified; None is the device where that is no CPU."""


def device_rule(verifier: PathVerifier, device: torch.device, verify_on: str | None) -> DeviceRule | None:
    """The rule that stands for a verifier on the device of the models; None where the host verifies.

    Raises
    ------
    ProblemError
        If `verify_on` is no place, or the device has to verify by a rule that it does not have.
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
        If a law is none.
    """
    shape = drafts.trees[0].shape
    node = np.zeros((len(drafts.trees), shape.slots), dtype=np.int64)
    for mine, tree in zip(node, drafts.trees, strict=True):
        mine[tree.draw] = tree.node
    tokens = np.stack([tree.token[mine] for mine, tree in zip(node, drafts.trees, strict=True)])
    first = np.cumsum([0, *(tree.size for tree in drafts.trees[:-1])])
    first_inner = np.cumsum([0, *(tree.inner for tree in drafts.trees[:-1])])
    inner = node[:, : shape.offsets[-2]]
    slots = np.concatenate((tokens, node + first[:, None], inner + first_inner[:, None]), axis=1)
    uniforms = torch.rand(
        (*node.shape[:1], shape.slots + shape.depth, 3), dtype=torch.float64, device=laws.device, generator=generator
    )
    trees = Inputs(laws, drafts.over(laws.shape[1]), uniforms, torch.from_numpy(slots))
    came = verify_in_one(rule, trees, shape.branching).cpu().numpy()
    if not came[:, -1].all():
        trees.verify(rule, shape.branching, check=True)  # names what is wrong
    return [
        AcceptedTokens(own[picked[picked >= 0]].tolist(), int(token))
        for own, picked, token in zip(node, came[:, :-2], came[:, -2], strict=True)
    ]

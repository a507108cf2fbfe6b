"""Batches of drafted trees, and what rules on the host say of each."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from otspec.kernels.interval.places import memory
from otspec.verification import Tree
from otspec.verification.device import Links, TreeVerification, trees
from otspec.verification.reference import buckets as bucket_reference
from otspec.verification.rules.block.block import block_weights
from otspec.verification.rules.interval.compiled import verify_one
from otspec.verification.trees.shape import Shape
from tests.oracles import Floats, Ints
from tests.verification.grid_nested import slots_of
from tests.verification.models import model

SHAPES = [(1,), (3,), (1, 1, 1), (3, 1, 1), (2, 2), (1, 2, 2), (2, 1, 3)]
SEVERAL = 6
"""Trees of one batch."""
WAYS: dict[str, dict[str, Any]] = {rule: {"rule": rule} for rule in trees.RULES}
WAYS["by buckets"] = {"rule": "interval", "by": "buckets"}
DISTINCT = ("tiny", "zeros", "peaked", "point")
"""Families whose p/q have no ties but exact ones, and no laws so rare that another rule is used for them."""
Batch = tuple[Tensor, Tensor, Tensor, Tensor]
"""Target and draft laws, tokens and uniforms."""


def drawn(family: str, vocab: int, branching: tuple[int, ...], rows: int, seed: int = 0) -> list[Tree]:
    rng = np.random.default_rng([seed, vocab, *branching])
    return [model(family, vocab, seed + row).drawn(branching, rng) for row in range(rows)]


def batch(found: list[Tree], seed: int = 0) -> Batch:
    """Laws slot by slot, and uniforms."""
    nodes, tokens = zip(*(slots_of(tree) for tree in found), strict=True)
    shape = found[0].shape
    inner = shape.offsets[-2]
    target = torch.stack([torch.from_numpy(tree.target)[node] for tree, node in zip(found, nodes, strict=True)])
    draft = [torch.from_numpy(tree.draft)[node[:inner]] for tree, node in zip(found, nodes, strict=True)]
    uniforms = np.random.default_rng(seed).random((len(found), shape.slots + shape.depth, 3))
    return target, torch.stack(draft), torch.stack(tokens), torch.from_numpy(uniforms)


Output = tuple[tuple[int, ...], int]


def outputs(found: TreeVerification) -> list[Output]:
    """The accepted tokens and the one after them, tree by tree; the fields agree with each other."""
    assert found.valid.all()
    assert ((found.slots >= 0) == (found.tokens >= 0)).all()
    assert (found.accepted == (found.tokens >= 0).sum(dim=1)).all()
    rows = zip(found.tokens.tolist(), found.accepted.tolist(), found.token.tolist(), strict=True)
    return [(tuple(tokens[:accepted]), token) for tokens, accepted, token in rows]


def inverse(law: Floats, uniform: float) -> int:
    return int(np.searchsorted(np.cumsum(law), uniform * law.sum(), side="right"))


def token_by_token(tree: Tree, uniforms: Floats) -> Output:
    """The compiled rule at every node, for the slots that agree with the output."""
    mine = memory.of(tree.target.shape[1])

    def verified(p: Floats, q: Floats, drafts: Any, numbers: Floats) -> tuple[int, bool]:
        token, _ = verify_one(p, q, drafts, numbers, mine.work, mine.places)
        return token, token in drafts

    return walked(tree, uniforms, verified)


def by_buckets(tree: Tree, uniforms: Floats) -> Output:
    """The exact rule by buckets at every node, for the slots that agree with what was accepted."""
    most = int(max(np.diff(tree.shape.offsets)))

    def verified(p: Floats, q: Floats, drafts: Any, numbers: Floats) -> tuple[int, bool]:
        token, accepted = bucket_reference.verify(p.tolist(), q.tolist(), drafts.tolist(), numbers.tolist(), most)
        return token, accepted >= 0

    return walked(tree, uniforms, verified)


def walked(tree: Tree, uniforms: Floats, verified: Callable[..., tuple[int, bool]]) -> Output:
    """From the root on by a rule for one position, which says whether its token is a draft that is gone on from."""
    node, tokens = (part.numpy() for part in slots_of(tree))
    alive = np.array([0])
    put_out: list[int] = []
    for level in range(tree.shape.depth):
        drafts = np.flatnonzero(np.isin(tree.shape.parent, alive))
        here = node[alive[0]]
        numbers = np.concatenate((uniforms[drafts - 1], uniforms[tree.shape.slots - 1 + level, None]))
        token, goes_on = verified(tree.target[here], tree.draft[here], tokens[drafts], numbers)
        if not goes_on:
            return tuple(put_out), token
        alive = drafts[tokens[drafts] == token]
        put_out.append(token)
    return tuple(put_out), inverse(tree.target[node[alive[0]]], uniforms[-1, 1])


def first_path(tree: Tree, uniforms: Floats) -> Output:
    """Block verification of the path of first children."""
    nodes, numbers = tree.node[0], uniforms[tree.shape.slots - 1 :]
    tokens = tree.token[nodes[1:]]
    accepted, token = by_block(tree.target[nodes], tree.draft[nodes[:-1]], tokens, numbers[:, 0], numbers[-1, 1])
    return tuple(tokens[:accepted].tolist()), token


def by_block(p: Floats, q: Floats, tokens: Ints, uniforms: Floats, last: float) -> tuple[int, int]:
    """How many tokens of a path are accepted, and the one after them, by the figures of `otspec.verification`."""
    weight, stop = block_weights(p, q, tokens)
    accepted = max((i for i in range(1, tokens.size + 1) if uniforms[i - 1] < stop[i]), default=0)
    law = p[accepted]
    if accepted < tokens.size:
        rest = np.maximum(weight[accepted] * law - q[accepted], 0)
        law = rest if rest.sum() > 0 else law
    return accepted, inverse(law, last)


def links_of(shape: Shape, rows: int) -> Links:
    """The links of a branching, and slots at the end that hang nowhere."""
    first, sibling = np.full(shape.slots + 2, -1), np.full(shape.slots + 2, -1)
    for slot in range(shape.slots - 1, 0, -1):
        parent = shape.parent[slot]
        sibling[slot], first[parent] = first[parent], slot
    children, siblings = (torch.from_numpy(link).expand(rows, -1).to(torch.int32) for link in (first, sibling))
    return Links(children, siblings, shape.depth, shape.offsets[-1] - shape.offsets[-2])


RAGGED = Links(torch.tensor([[1, 3, -1, -1, -1]]), torch.tensor([[-1, 2, -1, 4, -1]]))
"""The root has two children; the first of them has two."""

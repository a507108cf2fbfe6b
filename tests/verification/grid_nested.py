"""The labels on a grid as an `otspec.verification.PathVerifier`: its exact law, with the host's figures after that."""

from dataclasses import dataclass

import numpy as np
import torch

from otspec.laws import FloatArray, Seed
from otspec.verification.rules.block.block import Picked, PickVerifier
from otspec.verification.rules.nested import grid
from otspec.verification.rules.nested.grid import Grown
from otspec.verification.rules.nested.tensors import grow, spread_of
from otspec.verification.tensors.groups import group
from otspec.verification.tensors.rows import rows_of
from otspec.verification.trees.batch import TreeBatch
from otspec.verification.trees.layout import branching_layout
from otspec.verification.trees.tree import Tree


def slots_of(tree: Tree) -> tuple[torch.Tensor, torch.Tensor]:
    """The node of each slot, and its token; shapes (S,)."""
    node = np.zeros(tree.shape.slots, dtype=np.int64)
    node[tree.draw] = tree.node
    return torch.from_numpy(node), torch.from_numpy(np.maximum(tree.token[node], 0))


@dataclass(frozen=True)
class GridNested(PickVerifier):
    """What `verify_trees` does by ``"nested"``, as laws in place of draws."""

    sigma: float = 0.0
    parts: int = 4

    def grown(self, tree: Tree) -> tuple[Grown, FloatArray]:
        """What the slots own, and the proposal laws at the inner nodes, shape (inner, V)."""
        node, token = slots_of(tree)
        target, draft = torch.from_numpy(tree.target), torch.from_numpy(tree.draft)
        rows, inner = node[None], node.clamp(max=tree.inner - 1)[None]
        right = [torch.ones(len(law), dtype=torch.bool) for law in (target, draft)]
        p, q = (rows_of(law, law.sum(dim=1), one) for law, one in zip((target, draft), right, strict=True))
        layout = branching_layout(tree.shape.branching, 1, token.device)
        batch = TreeBatch(layout, p, rows, q, inner, token[None], torch.ones(1, dtype=torch.bool))
        found = grow(batch, spread_of(self.sigma, self.parts, token.device))
        first = torch.from_numpy(tree.slot[: tree.inner])
        groups = group(target[: tree.inner], draft)
        return found, (draft * found.factor[0, first].gather(1, groups)).numpy()

    def pick(self, tree: Tree, rng: Seed) -> Picked:
        raise NotImplementedError

    def picks(self, tree: Tree) -> tuple[FloatArray, list[FloatArray]]:
        """Exact probability that each path shows the largest label."""
        found, proposal = self.grown(tree)
        ends = found.ends[0].double().numpy()
        law = np.diff(ends / ends[:, -1:], prepend=0.0, axis=1)
        weights = self._winner(tree, law)
        return weights, [proposal[nodes] for nodes in tree.node[:, :-1]]

    def _winner(self, tree: Tree, law: FloatArray) -> FloatArray:
        """P(each leaf wins), by the law of the bin of every slot's number, level by level."""
        branching, offsets = tree.shape.branching, tree.shape.offsets
        # Of every slot, above any of the leaves below it: the law of its bin, given that this leaf wins below it.
        below = {slot: (law[slot], {slot: 1.0}) for slot in range(offsets[-2], offsets[-1])}
        joint = {slot: dict.fromkeys(leaves, law[slot]) for slot, (_, leaves) in below.items()}
        for level in range(len(branching) - 1, -1, -1):
            children = branching[level]
            above = {}
            for slot in range(offsets[level], offsets[level + 1]):
                first = offsets[level + 1] + (slot - offsets[level]) * children
                mine = [joint[child] for child in range(first, first + children)]
                if children == 1:
                    above[slot] = mine[0]
                    continue
                wins = _largest(mine)
                above[slot] = {leaf: _through(part, law[slot], children) for leaf, part in wins.items()}
            joint = above
        chances = {leaf: part.sum() for leaf, part in joint[0].items()}
        return np.array([chances[leaf] for leaf in tree.draw[:, -1].tolist()])


def _largest(siblings: list[dict[int, FloatArray]]) -> dict[int, FloatArray]:
    """Which leaf wins, jointly with the bin of its label: the bin is higher, or the fraction is, evenly."""
    totals = [sum(leaves.values()) for leaves in siblings]
    nodes, weights = np.polynomial.legendre.leggauss(len(siblings))
    nodes, weights = 0.5 + 0.5 * nodes, 0.5 * weights
    found = {}
    for k, leaves in enumerate(siblings):
        chance = np.zeros(grid.BINS)
        for node, weight in zip(nodes, weights, strict=True):
            product = np.full(grid.BINS, weight)
            for m, other in enumerate(totals):
                if m != k:
                    product *= np.cumsum(other) - other + node * other
            chance += product
        found.update({leaf: part * chance for leaf, part in leaves.items()})
    return found


def _through(part: FloatArray, own: FloatArray, children: int) -> FloatArray:
    """From the bin of the largest number s of b children to that of their parent's labels, s**b of which lie below."""
    edges = (np.arange(grid.BINS + 1) / grid.BINS) ** children
    ends = np.concatenate(([0.0], np.cumsum(own)))
    ends[-1] = 1.0
    cuts = np.unique(np.concatenate((edges, ends)))
    middle = 0.5 * (cuts[1:] + cuts[:-1])
    source = np.searchsorted(edges, middle, side="right") - 1
    reached = np.minimum(np.searchsorted(ends, middle, side="right") - 1, grid.BINS - 1)
    width = np.diff(edges)
    amount = part[source] * np.diff(cuts) / width[source]
    return np.bincount(reached, amount, minlength=grid.BINS).astype(np.float64)

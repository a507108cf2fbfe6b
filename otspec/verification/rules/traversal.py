"""Traversal verification: from the leaves of the tree to the root, sibling after sibling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from otspec.laws import FloatArray, Seed, as_generator, draw
from otspec.verification.rules.protocol import PathVerification
from otspec.verification.trees.tree import Tree, check_tree


@dataclass(frozen=True)
class Traversal:
    """Traversal verification [weng2025traversal], siblings in the order in which they were drafted.

    Of the paths through a node, the distinct next tokens are a draw without replacement from its draft law, whatever
    the number of copies: a token that fails leaves the law.  Block verification is the case of one path.

    Examples
    --------
    >>> from otspec.verification import Block, Traversal, path_law, synthetic
    >>> model = synthetic("tiny", vocab=2)
    >>> for rule, paths in (Block(), 1), (Traversal(), 1), (Traversal(), 2):  # of one path it is block verification
    ...     print(f"{path_law(rule, model, paths, 2).mean_accepted:.3f}")
    1.259
    1.259
    1.567
    """

    @property
    def exchangeable(self) -> bool:
        """The order in which siblings were drafted matters."""
        return False

    def verify(self, tree: Tree, rng: Seed) -> PathVerification:
        """Descend along the first path; go up and on to the next sibling wherever a node is refused."""
        check_tree(tree)
        verdict = self._visit(tree, 0, 1.0, 0, as_generator(rng, 1))
        assert verdict is not None, "the root accepts with probability 1"
        return verdict

    def stop_law(self, tree: Tree) -> FloatArray:
        """Exact law of the verdict given the tree, shape (N, V)."""
        law = np.zeros_like(tree.target)
        self._spread(tree, 0, 1.0, 1.0, law)
        return law

    def _visit(
        self, tree: Tree, node: int, weight: float, depth: int, rng: np.random.Generator
    ) -> PathVerification | None:
        """The verdict, if it falls in the subtree of the node."""
        sibling = _Siblings(tree, node, weight)
        for child in tree.children[node]:
            verdict = self._visit(tree, int(child), sibling.weight_of(tree.token[child]), depth + 1, rng)
            if verdict is not None:
                return verdict
            sibling.refuse(tree.token[child])
        if rng.random() < sibling.weight:
            return PathVerification(node, depth, int(draw(sibling.target, rng)))
        return None

    def _spread(self, tree: Tree, node: int, weight: float, chance: float, law: FloatArray) -> float:
        """Add what verdicts in the subtree make of a chance; return what is refused."""
        sibling = _Siblings(tree, node, weight)
        for child in tree.children[node]:
            chance = self._spread(tree, int(child), sibling.weight_of(tree.token[child]), chance, law)
            sibling.refuse(tree.token[child])
        law[node] += chance * sibling.weight * sibling.target
        return chance * (1.0 - sibling.weight)


class _Siblings:
    """What is left of a node's laws while its children are refused one after the other."""

    def __init__(self, tree: Tree, node: int, weight: float) -> None:
        self.weight = weight
        self.target = tree.target[node]
        self.draft = tree.draft[node] if node < tree.inner else np.empty(0)

    def weight_of(self, token: int) -> float:
        """The weight of a child, given that all before it were refused."""
        p, q = self.weight * self.target[token], self.draft[token]
        return p / q if p < q else 1.0

    def refuse(self, token: int) -> None:
        """A child and all below it are refused."""
        residual = np.maximum(self.weight * self.target - self.draft, 0.0)
        missing = residual.sum()
        refused = 1.0 - self.weight
        self.weight = missing / (missing + refused) if refused > 0 else 1.0
        self.target = residual / missing if missing > 0 else self.target
        self.draft = self.draft.copy()
        self.draft[token] = 0.0
        left = self.draft.sum()
        if left > 0:
            self.draft /= left

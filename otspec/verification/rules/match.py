"""Draw every token from the target, and accept drafts for as long as they are what was drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from otspec.laws import FloatArray, Seed, as_generator, draw
from otspec.verification.rules.protocol import PathVerification
from otspec.verification.trees.tree import Tree, check_tree


@dataclass(frozen=True)
class Match:
    """Walk down the tree by tokens of the target's law; the first that was not drafted ends the walk.

    Lossless for any tree that does not depend on what is drawn here, as each token is drawn from the target's
    law after its prefix.  It reads no draft laws, and paths may end at different depths.  After a prefix whose children
    are fixed, no lossless rule accepts more often: the output lies among them with their target probability.

    Examples
    --------
    >>> from otspec.verification import Match, synthetic
    >>> model = synthetic("tiny", vocab=4)
    >>> law = Match().stop_law(model.tree([[0, 1], [2, 3]]))
    >>> print(f"{law[1:].sum():.3f} = {model.target(())[[0, 2]].sum():.3f}")  # it draws a token that was drafted
    0.279 = 0.279
    """

    @property
    def exchangeable(self) -> bool:
        """The order of the paths does not matter."""
        return True

    def verify(self, tree: Tree, rng: Seed) -> PathVerification:
        """Draw until a token has no node."""
        check_tree(tree)
        rng, node = as_generator(rng, 1), 0
        while True:
            token = int(draw(tree.target[node], rng))
            below = [child for child in tree.children[node].tolist() if tree.token[child] == token]
            if not below:
                return PathVerification(node, int(tree.depth[node]), token)
            node = below[0]

    def stop_law(self, tree: Tree) -> FloatArray:
        """Exact law of the verdict given the tree, shape (N, V)."""
        law = tree.target.copy()
        reached = np.ones(tree.size)
        for node in range(tree.size):
            if node > 0:
                above = tree.parent[node]
                reached[node] = reached[above] * tree.target[above, tree.token[node]]
                law[above, tree.token[node]] = 0.0
            law[node] *= reached[node]
        return law

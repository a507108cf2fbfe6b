"""Block verification of one path, and the verifiers that pick a path and block-verify it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from otspec.jit import jit
from otspec.laws import FloatArray, IntArray, Seed, as_generator, draw
from otspec.verification.rules.protocol import PathVerification
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.tree import Tree, check_tree


class Blocks(NamedTuple):
    """Block verification of one path of L tokens [sun2024block]."""

    weight: FloatArray
    """Shape (L + 1,): w_i, of which P(the first i tokens are accepted | the path has these i tokens) is made."""
    stop: FloatArray
    """Shape (L + 1,): h_i, the probability of stopping after i tokens once all longer prefixes were refused."""


@jit
def block_weights(target: FloatArray, proposal: FloatArray, tokens: IntArray) -> Blocks:
    """The figures of block verification, for a path drawn token by token from the proposal laws.

    w_0 = 1 and w_i = min(1, w_(i-1) p(x_i) / g(x_i)).  With S_i = sum over x of [w_i p(x) - g(x)]+ after i tokens,
    h_i = S_i / (S_i + 1 - w_i), and h_L = w_L [sun2024block].

    Parameters
    ----------
    target : ndarray, shape (L + 1, V)
        Target laws p along the path.
    proposal : ndarray, shape (L, V)
        The laws g that its tokens have.
    tokens : ndarray of int, shape (L,)
    """
    length = tokens.size
    weight = np.ones(length + 1)
    stop = np.empty(length + 1)
    for i in range(length):
        missing = 0.0
        for x in range(target.shape[1]):
            missing += max(weight[i] * target[i, x] - proposal[i, x], 0.0)
        refused = 1.0 - weight[i]
        stop[i] = missing / (missing + refused) if refused > 0.0 else 1.0
        p = weight[i] * target[i, tokens[i]]
        g = proposal[i, tokens[i]]
        weight[i + 1] = p / g if p < g else 1.0
    stop[length] = weight[length]
    return Blocks(weight, stop)


class Picked(NamedTuple):
    """A picked path, and the laws g of its tokens given those before."""

    path: int
    proposal: FloatArray
    """Shape (L, V)."""


class PickVerifier(ABC):
    """Base of the verifiers that pick one path by a rule whose law g is known, and block-verify it against g."""

    @property
    def exchangeable(self) -> bool:
        """Whether the order of the paths does not matter."""
        return True

    @abstractmethod
    def pick(self, tree: Tree, rng: np.random.Generator) -> Picked:
        """Draw the picked path."""

    @abstractmethod
    def picks(self, tree: Tree) -> tuple[FloatArray, list[FloatArray]]:
        """Exact probability of picking each path given the tree, shape (K,), and the proposal laws along each."""

    def verify(self, tree: Tree, rng: Seed) -> PathVerification:
        """Accept a prefix and draw the token after it."""
        check_tree(tree)
        rng = as_generator(rng, 1)
        path, proposal = self.pick(tree, rng)
        nodes = tree.node[path]
        weight, stop = block_weights(tree.target[nodes], proposal, tree.token[nodes[1:]])
        accepted = tree.length
        while accepted > 0 and rng.random() >= stop[accepted]:
            accepted -= 1
        return PathVerification(
            int(nodes[accepted]), accepted, int(draw(residual_law(tree, path, proposal, weight, accepted), rng))
        )

    def stop_law(self, tree: Tree) -> FloatArray:
        """Exact law of the verdict given the tree, shape (N, V)."""
        law = np.zeros_like(tree.target)
        for path, (chance, proposal) in enumerate(zip(*self.picks(tree), strict=True)):
            if chance > 0:
                nodes = tree.node[path]
                weight, stop = block_weights(tree.target[nodes], proposal, tree.token[nodes[1:]])
                for accepted in range(tree.length, -1, -1):
                    law[nodes[accepted]] += (
                        chance * stop[accepted] * residual_law(tree, path, proposal, weight, accepted)
                    )
                    chance *= 1.0 - stop[accepted]
        return law


def residual_law(tree: Tree, path: int, proposal: FloatArray, weight: FloatArray, accepted: int) -> FloatArray:
    """Law of the token after the accepted ones, shape (V,): [w p - g]+ normalised, or p at the end of the path."""
    target = tree.target[tree.node[path, accepted]]
    if accepted == tree.length:
        return target
    residual = np.maximum(weight[accepted] * target - proposal[accepted], 0.0)
    total = residual.sum()
    return residual / total if total > 0 else target  # nothing is left up to rounding, and so is the chance to stop


@dataclass(frozen=True)
class Block(PickVerifier):
    """Block verification of the first path, optimal for a single one [sun2024block].

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.verification import Block, synthetic
    >>> model = synthetic("mixed", vocab=50)
    >>> tree = model.tree(model.sample(1, 3, np.random.default_rng(0)))
    >>> law = Block().stop_law(tree)  # where it stops, exactly
    >>> print(f"{law.sum():.6f}")
    1.000000
    """

    @property
    def exchangeable(self) -> bool:
        """The other paths are not read."""
        return False

    def pick(self, tree: Tree, rng: Seed) -> Picked:
        """The first path, whose tokens have the draft laws."""
        return Picked(0, tree.draft[tree.node[0, :-1]])

    def picks(self, tree: Tree) -> tuple[FloatArray, list[FloatArray]]:
        """Certainty of the first path, shape (K,), and its draft laws, shape (L, V), for every path."""
        laws = tree.draft[tree.node[0, :-1]]
        return np.eye(1, tree.count)[0], [laws] * tree.count

    def along(self, target: FloatArray, draft: FloatArray, tokens: IntArray, shape: Shape) -> FloatArray:
        """Proposal laws, shape (L, V), of the tokens of a picked path: the draft laws, whatever the shape."""
        return draft

"""`nested`: one uniform label per path, refined level by level; the largest is picked, then block-verified."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from scipy.stats import norm

from otspec.errors import ProblemError
from otspec.jit import jit
from otspec.laws import FloatArray, IntArray, as_count
from otspec.paths.block import Picked, PickVerifier
from otspec.paths.labels import Label, Owned, Places, coordinate, label_of, owned_by, place_at, refine, whole
from otspec.paths.tree import Tree


@dataclass(frozen=True)
class Nested(PickVerifier):
    """Nested labels: see `docs/paths.md`.

    Parameters
    ----------
    sigma : float
        Look-ahead: how wide, in logits, the guesses of what a token's continuations are worth are spread.  0: none.
    parts : int
        Into how many parts look-ahead splits every token.
    """

    sigma: float = 0.0
    parts: int = 4
    _spread: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not (np.isfinite(self.sigma) and self.sigma >= 0):
            raise ProblemError(f"sigma is {self.sigma}; the spread of the look-ahead is finite and >= 0 (0: none)")
        as_count("parts", self.parts)
        spread = np.exp(self.sigma * norm.ppf((np.arange(self.parts) + 0.5) / self.parts))
        object.__setattr__(self, "_spread", spread / spread.mean() if self.sigma > 0 else np.ones(1))

    def pick(self, tree: Tree, rng: np.random.Generator) -> Picked:
        """The path that shows the largest label.

        Labels are compared where paths part, in the coordinate of the node there: as absolute numbers, those of long
        paths would run together.
        """
        grown = self._grow(tree)
        best: dict[int, tuple[int, float, int]] = {}
        for path, (leaf, position) in enumerate(zip(tree.node[:, -1].tolist(), rng.random(tree.count), strict=True)):
            best[leaf] = max(best.get(leaf, (0, -1.0, -1)), (0, position, path))
        for node in range(len(tree.parent) - 1, 0, -1):
            rank, fraction, path = best[node]
            position = fraction if node >= tree.inner else coordinate(grown.places[node], rank, fraction)
            parent = int(tree.parent[node])
            shown = (*place_at(grown.owned[node], position), path)
            best[parent] = max(best.get(parent, shown), shown)
        path = best[0][2]
        return Picked(path, grown.proposal(tree, path))

    def picks(self, tree: Tree) -> tuple[FloatArray, list[FloatArray]]:
        """Exact probability that each path shows the largest label, shape (K,), and the proposal laws along each."""
        grown = self._grow(tree)
        labels = [grown.label[leaf] for leaf in tree.node[:, -1]]
        low = [label.low * label.scale for label in labels]
        length = [label.length * label.scale for label in labels]
        cuts = np.unique(np.concatenate([*low, *(a + b for a, b in zip(low, length, strict=True))]))
        below = np.array(
            [
                np.clip((cuts[:, None] - a) / b, 0.0, 1.0) @ label.share
                for a, b, label in zip(low, length, labels, strict=True)
            ]
        )
        nodes, node_weights = np.polynomial.legendre.leggauss((tree.count + 1) // 2)
        rise = np.diff(below)
        at = below[:, :-1, None] + rise[:, :, None] * (0.5 + 0.5 * nodes)
        weights = np.empty(tree.count)
        for path in range(tree.count):
            others = np.delete(at, path, axis=0).prod(axis=0)
            weights[path] = rise[path] @ (others @ (0.5 * node_weights))
        return weights, [grown.proposal(tree, path) for path in range(tree.count)]

    def along(self, target: FloatArray, draft: FloatArray, tokens: IntArray, count: int) -> FloatArray:
        """Proposal laws, shape (L, V), of the tokens of a picked path, whatever the other paths are.

        Parameters
        ----------
        target, draft : ndarray, shape (L, V)
            The laws along the path.
        tokens : ndarray of int, shape (L,)
            Its tokens.
        count : int
            K, the number of paths.
        """
        label, weight = whole(), 1.0
        proposal = np.empty_like(draft)
        for i, token in enumerate(tokens):
            places = refine(target[i], draft[i], count, label, weight, self._spread)
            label = label_of(owned_by(places, token), places, label)
            weight = next_weight(weight, target[i, token], places.proposal[token])
            proposal[i] = places.proposal
        return proposal

    def _grow(self, tree: Tree) -> _Grown:
        """Refine the labels at every inner node."""
        grown = _Grown([], [None] * len(tree.parent), [whole()] * len(tree.parent))
        weight = np.ones(len(tree.parent))
        for node in range(tree.inner):
            target, draft = tree.target[node], tree.draft[node]
            label = grown.label[node]
            places = refine(target, draft, tree.count, label, weight[node], self._spread)
            grown.places.append(places)
            for child in tree.children[node]:
                token = tree.token[child]
                owned = owned_by(places, token)
                grown.owned[child] = owned
                grown.label[child] = label_of(owned, places, label)
                weight[child] = next_weight(weight[node], target[token], places.proposal[token])
        return grown


def next_weight(weight: float, p: float, g: float) -> float:
    return weight * p / g if weight * p < g else 1.0


@dataclass(frozen=True)
class _Grown:
    """What the nodes of a tree own."""

    places: list[Places]
    owned: list[Owned]
    label: list[Label]

    def proposal(self, tree: Tree, path: int) -> FloatArray:
        """The laws g along a path, shape (L, V)."""
        return np.array([self.places[node].proposal for node in tree.node[path, :-1]])

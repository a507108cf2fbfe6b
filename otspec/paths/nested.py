"""`nested`: one uniform label per path, refined level by level; the largest is picked, then block-verified."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri

from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray, as_count
from otspec.paths.block import Picked, PickVerifier
from otspec.paths.labels import Label, Owned, Places, coordinate, label_of, largest, owned_by, place_at, whole
from otspec.paths.sharing import PLAIN, RANKED, Sharing, refine
from otspec.paths.tree import Tree


class LabelVerifier(PickVerifier):
    """Base of the verifiers that give every path one uniform label and pick the largest: see `docs/paths.md`."""

    @abstractmethod
    def _sharing(self, last: bool) -> Sharing:
        """How prefixes share their labels among their children, at the last level or above it."""

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
        weights = largest([grown.label[leaf] for leaf in tree.node[:, -1]])
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
        counts = np.eye(count)[-1]
        proposal = np.empty_like(draft)
        for i, token in enumerate(tokens):
            sharing = self._sharing(last=i == tokens.size - 1)
            places = refine(target[i], draft[i], counts, label, weight, sharing)
            label = label_of(owned_by(places, token), places, label)
            weight = next_weight(weight, target[i, token], places.proposal[token])
            proposal[i] = places.proposal
        return proposal

    def _grow(self, tree: Tree) -> _Grown:
        """Refine the labels at every inner node."""
        grown = _Grown([], {}, [whole()] * len(tree.parent))
        weight = np.ones(len(tree.parent))
        counts = np.eye(tree.count)[-1]
        for node in range(tree.inner):
            target, draft = tree.target[node], tree.draft[node]
            label = grown.label[node]
            sharing = self._sharing(last=int(tree.children[node][0]) >= tree.inner)
            places = refine(target, draft, counts, label, weight[node], sharing)
            grown.places.append(places)
            for child in tree.children[node].tolist():
                token = tree.token[child]
                owned = owned_by(places, token)
                grown.owned[child] = owned
                grown.label[child] = label_of(owned, places, label)
                weight[child] = next_weight(weight[node], target[token], places.proposal[token])
        return grown


@dataclass(frozen=True)
class Nested(LabelVerifier):
    """Nested labels, refined level by level as `interval` does it: the most even law of the picked path.

    Parameters
    ----------
    sigma : float
        Look-ahead: tokens are split into parts, as if their continuations were of different worth, lognormally spread
        with this standard deviation.  That keeps more of the labels' freedom for later tokens.  0: no look-ahead.
    parts : int
        Into how many parts look-ahead splits.
    grain : float
        Look-ahead joins tokens whose p/q differ by less than this share, which saves time.

    Raises
    ------
    ProblemError
        If a setting is out of its range.
    """

    sigma: float = 0.5
    parts: int = 4
    grain: float = 0.02
    _ahead: Sharing = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("sigma", "grain"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise ProblemError(f"{name} is {value}; it is finite and >= 0 (0: none)")
        as_count("parts", self.parts)
        spread = np.exp(self.sigma * ndtri((np.arange(self.parts) + 0.5) / self.parts))
        sharing = Sharing(spread / spread.mean(), self.grain, True, np.inf) if self.sigma > 0 else PLAIN
        object.__setattr__(self, "_ahead", sharing)

    def _sharing(self, last: bool) -> Sharing:
        return PLAIN if last else self._ahead


@dataclass(frozen=True)
class GreedyMultiPath(LabelVerifier):
    """Greedy multi-path block verification [thomas2026greedy]: pick the path that ranks highest in lexicographic order.

    Siblings rank by min(1, p/q); those of equal rank share their labels evenly.  In terms of labels: tokens own their
    places whole.
    """

    def _sharing(self, last: bool) -> Sharing:
        return RANKED


def next_weight(weight: float, p: float, g: float) -> float:
    """Weight of block verification one token on."""
    return weight * p / g if weight * p < g else 1.0


@dataclass(frozen=True)
class _Grown:
    """What the nodes of a tree own."""

    places: list[Places]
    owned: dict[int, Owned]
    label: list[Label]

    def proposal(self, tree: Tree, path: int) -> FloatArray:
        """The laws g along a path, shape (L, V)."""
        return np.array([self.places[node].proposal for node in tree.node[path, :-1]])

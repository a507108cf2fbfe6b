"""`nested`: one uniform label per drafted path, refined level by level; the largest is picked, then block-verified."""

from __future__ import annotations

import sys
from abc import abstractmethod
from dataclasses import dataclass, field
from numbers import Real
from typing import cast

import numpy as np
from scipy.special import ndtri

from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray, Seed, as_count, as_generator
from otspec.verification.rules.block.block import Picked, PickVerifier
from otspec.verification.rules.nested.growth import Sharings, grow, part, pick_largest
from otspec.verification.rules.nested.ranking import FINEST
from otspec.verification.rules.nested.sharing import PLAIN, RANKED, Sharing
from otspec.verification.rules.nested.winning import largest
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.tree import Tree

LARGEST = sys.float_info.max
MOST_SIGMA, MOST_PARTS = 100, 1024
"""Of look-ahead: the spread of its parts is then within the range of floats."""


class LabelVerifier(PickVerifier):
    """Base of the verifiers that give every path one uniform label and pick the largest: see `docs/paths.md`."""

    @property
    @abstractmethod
    def _sharings(self) -> Sharings:
        """How prefixes share their labels among their children."""

    def pick(self, tree: Tree, rng: Seed) -> Picked:
        """The path that shows the largest label."""
        if tree.count == 1:  # whose tokens have the draft laws: of several shapes, one path is common
            return Picked(0, tree.draft[tree.node[0, :-1]])
        position = as_generator(rng, 1).random(tree.count)
        return Picked(*pick_largest(_leaves(tree), position, *_arrays(tree), self._sharings))

    def picks(self, tree: Tree) -> tuple[FloatArray, list[FloatArray]]:
        """Exact probability that each path shows the largest label, shape (K,), and the proposal laws along each."""
        count = tree.count
        parted = part(_leaves(tree), *_arrays(tree), self._sharings)
        weights = largest([parted.label[k * count : (k + 1) * count] for k in range(count)])
        return weights, [np.array([parted.places[node].proposal for node in nodes]) for nodes in tree.node[:, :-1]]

    def along(self, target: FloatArray, draft: FloatArray, tokens: IntArray, shape: Shape) -> FloatArray:
        """Proposal laws, shape (L, V), of the tokens of a picked path, whatever the other paths are.

        Parameters
        ----------
        target, draft : ndarray, shape (L, V)
            The laws along the path.
        tokens : ndarray of int, shape (L,)
            Its tokens.
        shape : Shape
            Of the drafts.
        """
        line = np.arange(tokens.size)
        branching = np.array(shape.branching, dtype=np.int64)
        reached = np.append(-1, tokens[:-1])
        places = grow(line - 1, reached, line, branching, target, draft, self._sharings).places
        return np.array([place.proposal for place in places])


def _leaves(tree: Tree) -> IntArray:
    """The node where each path ends, shape (K,), contiguous: a column of one row would be compiled for once more."""
    return np.ascontiguousarray(tree.node[:, -1])


def _arrays(tree: Tree) -> tuple[IntArray, IntArray, IntArray, IntArray, FloatArray, FloatArray]:
    """What growing takes of a tree."""
    branching = np.array(tree.shape.branching, dtype=np.int64)
    return tree.parent, tree.token, tree.depth, branching, tree.target, tree.draft


@dataclass(frozen=True)
class Nested(LabelVerifier):
    """Nested labels, refined level by level as `interval` does it: the most even law of the picked path.

    Parameters
    ----------
    sigma : float
        Look-ahead: tokens are split into parts, as if their continuations were of different worth, lognormally spread
        with this standard deviation.  That leaves more of the labels' freedom to later tokens.  0: no look-ahead.
    parts : int
        Into how many parts look-ahead splits.
    grain : float
        Look-ahead joins tokens whose p/q differ by less than this share, which saves time.  On the last level, where
        nothing is split, it is 2**-8 at most.

    Raises
    ------
    ProblemError
        If a setting is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.verification import Nested, synthetic
    >>> rng = np.random.default_rng(0)
    >>> model = synthetic("mixed", vocab=50)
    >>> tree = model.tree(model.sample(4, 3, rng))  # four paths of three tokens
    >>> result = Nested().verify(tree, rng)
    >>> 0 <= result.accepted <= 3, 0 <= result.token < 50
    (True, True)
    """

    sigma: float = 0.5
    parts: int = 8
    grain: float = 0.02
    _chosen: Sharings = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("sigma", "grain"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= cast(float, value) <= LARGEST:
                raise ProblemError(f"{name} is {value!r}; it is finite and >= 0 (0: none)")
        if self.sigma > MOST_SIGMA or as_count("parts", self.parts) > MOST_PARTS:
            raise ProblemError(
                f"sigma is {self.sigma} and parts is {self.parts}; they are at most {MOST_SIGMA} and {MOST_PARTS}, "
                "beyond which look-ahead leaves the range of floats"
            )
        spread = np.exp(self.sigma * ndtri((np.arange(self.parts) + 0.5) / self.parts))
        chosen = Sharings(PLAIN, PLAIN)
        if self.sigma > 0:
            chosen = Sharings(
                PLAIN._replace(grain=min(float(self.grain), FINEST)),
                Sharing(spread / spread.mean(), float(self.grain), True, np.inf),
            )
        object.__setattr__(self, "_chosen", chosen)

    @property
    def _sharings(self) -> Sharings:
        return self._chosen


@dataclass(frozen=True)
class GreedyMultiPath(LabelVerifier):
    """Greedy multi-path block verification [thomas2026greedy]: pick the path that ranks highest in lexicographic order.

    Siblings rank by min(1, p/q); those of equal rank share their labels evenly.  In terms of labels: tokens own their
    places whole.

    Examples
    --------
    >>> from otspec.verification import GreedyMultiPath, Nested, path_law, synthetic
    >>> model = synthetic("tiny", vocab=3)
    >>> for rule in GreedyMultiPath(), Nested():  # both lossless
    ...     print(f"{path_law(rule, model, 2, 2).mean_accepted:.3f}")
    1.026
    1.027
    """

    @property
    def _sharings(self) -> Sharings:
        return Sharings(RANKED, RANKED)

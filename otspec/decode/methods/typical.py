"""Typical acceptance: drafts that are likely enough under the target's law are taken [cai2024medusa].  Lossy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from otspec.errors import ProblemError
from otspec.laws import FloatArray, Seed, as_generator, draw
from otspec.verification import PathVerification, Tree


@dataclass(frozen=True)
class Typical:
    """Accept the longest prefix whose tokens all have p(x) > min(epsilon, delta exp(-H(p))) [cai2024medusa].

    H is the entropy of the target law there.  The text does not have the target's law.

    Parameters
    ----------
    epsilon, delta : float
        In (0, 1]; the paper takes delta = sqrt(epsilon).

    Raises
    ------
    ProblemError
        If one is out of its range.
    """

    epsilon: float = 0.09
    delta: float = 0.3

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            if not 0 < getattr(self, name) <= 1:
                raise ProblemError(f"{name} is {getattr(self, name)}; it is in (0, 1]")

    @property
    def exchangeable(self) -> bool:
        """Of prefixes of one length the first drafted is taken."""
        return False

    def verify(self, tree: Tree, rng: Seed) -> PathVerification:
        """Accept, and draw the next token from the target."""
        node, accepted = self._longest(tree)
        return PathVerification(node, accepted, int(draw(tree.target[node], as_generator(rng, 1))))

    def stop_law(self, tree: Tree) -> FloatArray:
        """Exact law of the verdict given the tree, shape (N, V)."""
        law = np.zeros_like(tree.target)
        node, _ = self._longest(tree)
        law[node] = tree.target[node]
        return law

    def _longest(self, tree: Tree) -> tuple[int, int]:
        """The accepted node, and its number of tokens."""
        threshold = np.minimum(self.epsilon, self.delta * np.exp(-entr(tree.target).sum(axis=1)))
        before = tree.node[:, :-1]
        after = tree.token[tree.node[:, 1:]]
        likely = tree.target[before, after] > threshold[before]
        accepted = np.logical_and.accumulate(likely, axis=1).sum(axis=1)
        path = int(accepted.argmax())
        return int(tree.node[path, accepted[path]]), int(accepted[path])

"""Hierarchical speculative decoding of one path, as its paper defines it: block verification in other words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from otspec.laws import FloatArray, Seed, as_generator, draw
from otspec.verification.rules.protocol import PathVerification
from otspec.verification.trees.tree import Tree, check_tree


class Steps(NamedTuple):
    """What the backward scan along a path of L tokens meets."""

    stop: FloatArray
    """Shape (L + 1,): h_t, the probability of stopping after t tokens once all longer prefixes were refused."""
    after: FloatArray
    """Shape (L + 1, V): the law of the token that is then added."""


@dataclass(frozen=True)
class Hierarchical:
    """Hierarchical speculative decoding of the first path, with capped branch resampling [zhou2026hierarchical].

    With r(x_1 .. x_t) the ratio of the joint probabilities p/q, the capped ratio r* is r(x_1 .. x_t) over the largest
    r of a shorter prefix, if that is above 1 [zhou2026hierarchical, eq. (16)].  The scan from the end accepts all L
    tokens with probability min(1, r*), t < L tokens with the ratio of what the next token is short of to what it has
    too much of, both measured by r* (eqs. (17) to (19)), and adds a token of what it is short of (eq. (20)).

    This *is* block verification: its weight w_t = min(1, w_(t-1) p/q) is r over the largest r so far, and r* of the
    next token is w_t p/q.  So it accepts no more than `Block`, and its law is the same (docs/theory/paths.md).  What
    the authors' code does is another rule, `otspec.auditing.known_bugs.ReleasedHierarchical`, which is not lossless.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.paths import Block, Hierarchical, synthetic
    >>> model = synthetic("mixed", vocab=50)
    >>> tree = model.tree(model.sample(1, 4, rng=0))
    >>> bool(np.allclose(Hierarchical().stop_law(tree), Block().stop_law(tree)))  # the same rule
    True
    """

    @property
    def exchangeable(self) -> bool:
        """The other paths are not looked at."""
        return False

    def verify(self, tree: Tree, rng: Seed) -> PathVerification:
        """Go back from the end until a prefix is accepted."""
        check_tree(tree)
        rng, nodes, (stop, after) = as_generator(rng, 1), tree.node[0], self._steps(tree)
        accepted = tree.length
        while accepted > 0 and rng.random() >= stop[accepted]:
            accepted -= 1
        return PathVerification(int(nodes[accepted]), accepted, int(draw(after[accepted], rng)))

    def stop_law(self, tree: Tree) -> FloatArray:
        """Exact law of the verdict given the tree, shape (N, V)."""
        law, chance = np.zeros_like(tree.target), 1.0
        stop, after = self._steps(tree)
        for accepted in range(tree.length, -1, -1):
            law[tree.node[0, accepted]] += chance * stop[accepted] * after[accepted]
            chance *= 1.0 - stop[accepted]
        return law

    def _steps(self, tree: Tree) -> Steps:
        nodes = tree.node[0]
        target, draft, tokens = tree.target[nodes], tree.draft[nodes[:-1]], tree.token[nodes[1:]]
        level = np.arange(tree.length)
        with np.errstate(divide="ignore"):
            log_ratio = np.cumsum(np.log(target[level, tokens]) - np.log(draft[level, tokens]))
        log_ratio = np.append(0.0, log_ratio)
        stop, after = np.ones(tree.length + 1), target.copy()
        for t in level:
            cap = log_ratio[: t + 1].max()  # the empty prefix has r = 1
            branch = np.exp(log_ratio[t] - cap) * target[t] - draft[t]  # q (r* - 1) for each next token
            short, over = np.maximum(branch, 0.0), np.maximum(-branch, 0.0)
            if over.sum() > 0.0:
                stop[t] = short.sum() / over.sum() if short.sum() < over.sum() else 1.0
            if short.sum() > 0.0:
                after[t] = short / short.sum()
        stop[-1] = self._last(log_ratio)
        return Steps(stop, after)

    def _last(self, log_ratio: FloatArray) -> float:
        """P(all tokens are accepted): min(1, r*)."""
        return float(np.exp(min(log_ratio[-1] - log_ratio[:-1].max(), 0.0)))

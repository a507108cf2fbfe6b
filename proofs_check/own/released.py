"""Hierarchical speculative decoding as its authors' code has it, which is not lossless."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from otspec.laws import FloatArray, Seed, as_generator, draw
from otspec.verification import PathVerification, Tree


@dataclass(frozen=True)
class ReleasedHierarchical:
    """Hierarchical speculative decoding as its authors' code has it: the last step forgets the cap.

    The scan from the end accepts t < L tokens with the ratio of what the next token is short of to what it has too much
    of, both measured by the capped ratio r* [zhou2026hierarchical, eqs. (16) to (20)].  All L tokens are accepted with
    probability min(1, r), r the ratio of the joint probabilities, where eq. (19) has min(1, r*).  Where r was above 1
    on the way and fell, too much is accepted.

    Parameters
    ----------
    capped : bool
        The rule as it is printed, with min(1, r*) in the last step: block verification.
    """

    capped: bool = False
    exchangeable = False

    def verify(self, tree: Tree, rng: Seed) -> PathVerification:
        """Go back from the end until a prefix is accepted."""
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

    def _steps(self, tree: Tree) -> tuple[FloatArray, FloatArray]:
        """P(stop after t tokens | all longer prefixes were refused), (L + 1,), and the laws of the next token."""
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
        stop[-1] = np.exp(min(log_ratio[-1] - (log_ratio[:-1].max() if self.capped else 0.0), 0.0))
        return stop, after

"""Drafting with several language models: each drafts paths of its own, and all of them are in one tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from otspec.decode.base.drafts import Drafts, max_support
from otspec.decode.drafters.drafter import Drafter
from otspec.decode.drafters.levels import LevelDrafter
from otspec.laws import IntArray
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import Topology


class SeveralDrafters(Drafter):
    """Paths of several draft models, as many of each; those of the first come first.

    Parameters
    ----------
    drafters : sequence of LevelDrafter
        Of models: they draft independent paths, all the same number and length.
    """

    def __init__(self, drafters: Sequence[LevelDrafter]) -> None:
        self.drafters = drafters
        self._tokens: list[IntArray] = []
        """Of each text: the token of every slot but the root."""
        self._trees: list[Sequence[Topology]] = []
        """Of each text: what each model drafted."""

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts."""
        for drafter in self.drafters:
            drafter.start(texts)

    def depth(self, lengths: IntArray) -> int:
        """As deep as all models go."""
        return min(drafter.depth(lengths) for drafter in self.drafters)

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft with each; a node then has as many laws as models drafted below it."""
        return self._joined([drafter.draft(texts, depth) for drafter in self.drafters])

    def _joined(self, each: Sequence[Drafts]) -> Drafts:
        """All in one tree for each text."""
        start = np.cumsum([0, *(len(drafts.laws) for drafts in each)])
        next_row = start[:-1].copy()
        self._trees = list(zip(*(drafts.trees for drafts in each), strict=True))
        self._tokens, trees, rows = [], [], []
        for own in self._trees:
            tokens = np.concatenate([tree.token[tree.node[:, 1:]] for tree in own])
            rows.append(np.concatenate([row + tree.node[:, :-1] for row, tree in zip(next_row, own, strict=True)]))
            next_row += [tree.inner for tree in own]
            self._tokens.append(tokens.T.ravel())
            trees.append(Topology.merge(Shape.paths(*tokens.shape), self._tokens[-1]))
        support = max_support(*(drafts.support for drafts in each))
        return Drafts(trees, torch.cat([drafts.laws for drafts in each]), support, rows, each[0].columns)

    def commit(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Have each model keep what it has read of the accepted tokens: as far as it drafted them itself."""
        for at, drafter in enumerate(self.drafters):
            own = [
                _slots_of(self._trees[text][at], self._tokens[text][np.asarray(slots) - 1].tolist()) if slots else []
                for text, slots in enumerate(accepted)
            ]
            drafter.commit(own, rows)


def _slots_of(tree: Topology, tokens: Sequence[int]) -> list[int]:
    """The slots of a tree that hold the first of these tokens, as many as it has."""
    node, slots = 0, []
    for token in tokens:
        if (child := tree.node_of.get((node, token))) is None:
            break
        node = child
        slots.append(int(tree.slot[node]))
    return slots

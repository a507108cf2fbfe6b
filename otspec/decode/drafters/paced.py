"""Drafting what pays: a pacer before any drafter."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from otspec.decode.drafters.protocol import Drafter, Drafts, Watching
from otspec.decode.models.context import Pass
from otspec.decode.pacing.goodput import Pacer
from otspec.laws import IntArray


class PacedDrafter:
    """A drafter for which a pacer chooses the depth of every step, from what became of the steps before.

    Parameters
    ----------
    drafter : Drafter
    pacer : Pacer
    """

    def __init__(self, drafter: Drafter, pacer: Pacer) -> None:
        self._drafter = drafter
        self._pacer = pacer
        self._depth = 0
        self._offered: list[int] = []
        self._whole = True

    @property
    def passes(self) -> Sequence[Pass]:
        """Of the drafter."""
        return self._drafter.passes

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts."""
        self._drafter.start(texts)
        self._pacer.begin(len(texts))

    def depth(self, lengths: IntArray) -> int:
        """What the pacer chooses, if the drafter goes so far; asked once a step, when it begins."""
        self._offered, self._whole = [0] * len(lengths), True
        self._depth = self._pacer.choose(self._drafter.depth(lengths))
        return self._depth

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft."""
        self._depth = min(self._depth, depth)
        drafts = self._drafter.draft(texts, self._depth)
        self._offered = [tree.length for tree in drafts.trees]
        self._whole = all(tree.size == tree.shape.slots for tree in drafts.trees)
        return drafts

    def settle(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep what was accepted, and learn from it."""
        self._drafter.settle(accepted, rows)
        self._pacer.learn(self._depth, self._offered, [len(slots) for slots in accepted], rows, self._whole)


class PacedWatching(PacedDrafter):
    """A paced drafter that looks at the target."""

    @property
    def layers(self) -> Sequence[int]:
        """Of the target."""
        assert isinstance(self._drafter, Watching)
        return self._drafter.layers

    def watch(self, features: Sequence[torch.Tensor]) -> None:
        """Tell the drafter what the target thinks."""
        assert isinstance(self._drafter, Watching)
        self._drafter.watch(features)


def paced(drafter: Drafter, pacer: Pacer) -> Drafter:
    """The drafter, paced."""
    return PacedWatching(drafter, pacer) if isinstance(drafter, Watching) else PacedDrafter(drafter, pacer)

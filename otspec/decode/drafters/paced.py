"""Drafting what pays: a pacer before any drafter whose trees can have several shapes."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from otspec.decode.drafters.protocol import Drafter, Drafts, Foresighted, Malleable, Watching
from otspec.decode.models.context import Pass
from otspec.decode.pacing.goodput import Pacer
from otspec.decode.pacing.menu import NONE
from otspec.laws import IntArray
from otspec.paths.shape import Shape


class PacedDrafter:
    """A drafter for which a pacer chooses a shape at every step, from what became of the steps before.

    Parameters
    ----------
    drafter : Drafter
        A `Malleable` one.
    pacer : Pacer
    """

    def __init__(self, drafter: Drafter, pacer: Pacer) -> None:
        self._drafter = drafter
        self._pacer = pacer
        self._shape = NONE
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
        """The depth of what the pacer chooses, if the drafter goes so far; asked once a step, when it begins."""
        self._offered, self._whole = [0] * len(lengths), True
        self._shape = self._pacer.choose(self._drafter.depth(lengths))
        return self._shape.depth

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft."""
        assert isinstance(self._drafter, Malleable)
        self._shape = self._shape.cut(depth)
        return self._noted(self._drafter.draft_as(texts, self._shape))

    def _noted(self, drafts: Drafts) -> Drafts:
        self._offered = [tree.length for tree in drafts.trees]
        self._whole = all(tree.size == tree.shape.slots for tree in drafts.trees)
        return drafts

    def settle(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep what was accepted, and learn from it."""
        self._drafter.settle(accepted, rows)
        self._pacer.learn(self._shape, self._offered, [len(slots) for slots in accepted], rows, self._whole)


class SelectedDrafter(PacedDrafter):
    """The same where the pacer also looks at the first draft law, and at what target and draft laws have in common."""

    def depth(self, lengths: IntArray) -> int:
        """As deep as the drafter goes; what is drafted is chosen after its first pass."""
        deepest = self._drafter.depth(lengths)
        if not deepest:
            return super().depth(lengths)
        self._offered, self._whole, self._shape = [0] * len(lengths), True, NONE
        return deepest

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft what the pacer chooses when it sees the first law; that may be nothing."""
        assert isinstance(self._drafter, Foresighted)

        def choose(law: torch.Tensor) -> Shape:
            self._shape = self._pacer.choose(depth, law)
            return self._shape

        return self._noted(self._drafter.draft_by(texts, choose))

    def compare(self, shared: Sequence[Sequence[float]]) -> None:
        """Tell the pacer how alike the laws were."""
        self._pacer.compare(shared)


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


class SelectedWatching(SelectedDrafter, PacedWatching):
    """Both."""


def paced(drafter: Drafter, pacer: Pacer) -> Drafter:
    """The drafter, paced."""
    watching = isinstance(drafter, Watching)
    if pacer.wants_law:
        return SelectedWatching(drafter, pacer) if watching else SelectedDrafter(drafter, pacer)
    return PacedWatching(drafter, pacer) if watching else PacedDrafter(drafter, pacer)

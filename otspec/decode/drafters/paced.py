"""Drafting as deep as pays: a pacer before any drafter."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from otspec.decode.drafters.protocol import Drafter, Drafts, Watching
from otspec.decode.models.context import Pass
from otspec.decode.pacing.goodput import Pacer
from otspec.laws import IntArray


class PacedDrafter:
    """A drafter whose depth a pacer chooses at every step, from what became of the steps before.

    Parameters
    ----------
    drafter : Drafter
    pacer : Pacer
    """

    def __init__(self, drafter: Drafter, pacer: Pacer) -> None:
        self._drafter = drafter
        self._pacer = pacer
        self._drafted = 0

    @property
    def passes(self) -> Sequence[Pass]:
        """Of the drafter."""
        return self._drafter.passes

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts."""
        self._drafter.start(texts)
        self._pacer.begin(len(texts))

    def depth(self, lengths: IntArray) -> int:
        """The depth that the pacer chooses, if the drafter goes so far; asked once a step, when it begins."""
        self._drafted = 0
        return self._pacer.depth(self._drafter.depth(lengths))

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft."""
        self._drafted = depth
        return self._drafter.draft(texts, depth)

    def settle(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep what was accepted, and learn from it."""
        self._drafter.settle(accepted, rows)
        self._pacer.learn(self._drafted, [len(slots) for slots in accepted], rows)


class PacedWatching(PacedDrafter):
    """The same for a drafter that looks at the target."""

    def __init__(self, drafter: Drafter, pacer: Pacer) -> None:
        super().__init__(drafter, pacer)
        assert isinstance(drafter, Watching)
        self._watching = drafter

    @property
    def layers(self) -> Sequence[int]:
        """Of the target."""
        return self._watching.layers

    def watch(self, features: Sequence[torch.Tensor]) -> None:
        """Tell the drafter what the target thinks."""
        self._watching.watch(features)


def paced(drafter: Drafter, pacer: Pacer) -> Drafter:
    """The drafter, paced."""
    return PacedWatching(drafter, pacer) if isinstance(drafter, Watching) else PacedDrafter(drafter, pacer)

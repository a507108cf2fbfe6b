"""Drafting what pays: a pacer before any drafter."""

from __future__ import annotations

from collections.abc import Sequence

from otspec.decode.base.drafts import Drafts
from otspec.decode.drafters.drafter import Drafter, WrappedDrafter
from otspec.decode.pacing.goodput import Pacer
from otspec.laws import IntArray


class PacedDrafter(WrappedDrafter):
    """A drafter for which a pacer chooses the depth of every step, from what became of the steps before.

    Parameters
    ----------
    drafter : Drafter
    pacer : Pacer
    """

    def __init__(self, drafter: Drafter, pacer: Pacer) -> None:
        super().__init__(drafter)
        self._pacer = pacer
        self._depth = 0
        self._offered: list[int] = []

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts."""
        super().start(texts)
        self._pacer.begin(len(texts))

    def depth(self, lengths: IntArray) -> int:
        """What the pacer chooses, if the drafter goes so far; asked once a step, when it begins."""
        self._offered = [0] * len(lengths)
        self._depth = self._pacer.choose(super().depth(lengths))
        return self._depth

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft."""
        self._depth = min(self._depth, depth)
        drafts = super().draft(texts, self._depth)
        self._offered = [tree.length for tree in drafts.trees]
        return drafts

    def commit(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep what was accepted, and learn how deep drafts go."""
        super().commit(accepted, rows)
        self._pacer.learn(self._depth, self._offered, [len(slots) for slots in accepted], rows)

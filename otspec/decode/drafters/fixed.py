"""Drafts that follow from the text, without the laws that they were taken from."""

from __future__ import annotations

from collections.abc import Sequence

from otspec.decode.base.drafts import Drafts
from otspec.decode.drafters.drafter import WrappedDrafter


class FixedDrafter(WrappedDrafter):
    """A drafter that draws nothing by chance: its drafts are verified as fixed ones, and no law is sent."""

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """The same trees."""
        return Drafts.fixed_trees(self.inner.draft(texts, depth).trees)

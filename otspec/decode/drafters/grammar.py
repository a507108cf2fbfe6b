"""Drafting what a grammar allows: it is told which texts of the batch are drafted for."""

from __future__ import annotations

from collections.abc import Sequence

from otspec.decode.base.grammar import Grammar
from otspec.decode.drafters.drafter import Drafter, WrappedDrafter


class GrammarDrafter(WrappedDrafter):
    """A drafter that asks grammars, and is told of texts by their place among those that go on.

    Parameters
    ----------
    drafter : Drafter
    grammars : sequence of Grammar
    """

    def __init__(self, drafter: Drafter, grammars: Sequence[Grammar]) -> None:
        super().__init__(drafter)
        self.grammars = grammars

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts."""
        for one in self.grammars:
            one.start(texts)
        super().start(texts)

    def commit(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep what was accepted."""
        for one in self.grammars:
            one.keep(rows)
        super().commit(accepted, rows)

"""How the cells of a run are parted into panels: against k at each n, and against n at each k."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from otspec.bench.solvers.summary import Summary

LETTERS = {"k": "k, draft tokens kept", "n": "n, drafts per position"}


class Panel(NamedTuple):
    """The cells that share one of k and n, against the other."""

    over: str
    """The letter that varies: k or n."""
    fixed: str
    """What does not, as in n = 2."""
    summaries: list[Summary]

    @property
    def axis(self) -> str:
        """What the horizontal axis is called."""
        return LETTERS[self.over]

    @property
    def ticks(self) -> list[int]:
        """Values of the letter, small first; the whole vocabulary, written 0, is the largest."""
        return sorted({self.place(summary) for summary in self.summaries}, key=_order)

    def place(self, summary: Summary) -> int:
        """Where a cell stands."""
        value: int = getattr(summary.cell, self.over)
        return value

    def whole(self, summary: Summary) -> bool:
        """Whether no solver there has plans for more positions: only then does its acceptance compare with theirs."""
        beside = (one.plans.positions for one in self.summaries if self.place(one) == self.place(summary))
        return summary.plans.positions == max(beside)


def panels_of(summaries: Sequence[Summary]) -> list[Panel]:
    """A panel against k for every n, and one against n for every k, those with two values or more."""
    found = []
    for over, other in (("k", "n"), ("n", "k")):
        for value in sorted({getattr(one.cell, other) for one in summaries}, key=_order):
            mine = [one for one in summaries if getattr(one.cell, other) == value]
            found.append(Panel(over, f"{other} = {written(value)}", mine))
    return [panel for panel in found if len(panel.ticks) > 1]


def written(value: int) -> str:
    """A number of tokens as the papers write it: V for all."""
    return str(value or "V")


def _order(value: int) -> float:
    return value or math.inf

"""Figures that are a sum over a sum, such as tokens over calls: of the records of one cell, and of two compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from otspec.bench.intervals import NONE, Estimate, by_prompt, ratio, ratio_error
from otspec.bench.records import Record

Place = tuple[int, int]
"""What was measured: the prompt, or the position, and which of several there (a repeat, a tree)."""
Held = Mapping[Place, Record]
"""Records of a cell by what was measured."""


def one(record: Record) -> float:
    """What a mean is over: every record counts once."""
    return 1.0


class Ratio(NamedTuple):
    """A sum over records, over another sum of the same records."""

    name: str
    """What it is called in tables, with its unit."""
    above: Callable[[Record], float]
    below: Callable[[Record], float] = one

    def of(self, record: Record) -> tuple[float, float]:
        """What a record adds above and below; NaN where the record does not have it."""
        return self.above(record), self.below(record)


def estimate(figure: Ratio, held: Held) -> Estimate:
    """The figure of a cell, with its interval over prompts; `NONE` without records."""
    rows = [(place[0], figure.of(record)) for place, record in held.items()]
    return ratio(*by_prompt(rows)) if rows else NONE


def error(figure: Ratio, held: Held) -> float:
    """Standard error of the figure of a cell across prompts; NaN for fewer than two."""
    rows = [(place[0], figure.of(record)) for place, record in held.items()]
    return ratio_error(*by_prompt(rows)) if rows else math.nan


def paired(compare: Callable[..., Estimate], figure: Ratio, mine: Held, theirs: Held) -> Estimate:
    """Two cells compared on what both were measured on; `NONE` where there is nothing.

    Parameters
    ----------
    compare : callable
        `otspec.bench.intervals.difference` or `quotient`.
    figure : Ratio
    mine, theirs : mapping
        Records by what they were measured on.
    """
    common = sorted(mine.keys() & theirs.keys())
    rows = [(place[0], (*figure.of(mine[place]), *figure.of(theirs[place]))) for place in common]
    return compare(*by_prompt(rows)) if rows else NONE

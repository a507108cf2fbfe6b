"""Figures that are a sum over a sum, such as tokens over calls: of the rows of one cell, and of two compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import polars as pl

from otspec.bench.intervals import NONE, Estimate, ratio, ratio_error
from otspec.laws import FloatArray

PLACE = ("prompt", "place")
"""Columns that say what was measured: the prompt, or the position, and which of several there (a repeat, a tree)."""
ONE = pl.lit(1.0)
"""What a mean is over: every row counts once."""


class Ratio(NamedTuple):
    """A sum over rows, over another sum of the same rows."""

    name: str
    """What it is called in tables, with its unit."""
    above: pl.Expr
    below: pl.Expr = ONE

    def sums(self, *frames: pl.DataFrame) -> list[FloatArray]:
        """Sums for each prompt, of what is in all frames and is not null: above and below of the first, and so on."""
        whole = None
        for at, frame in enumerate(frames):
            part = frame.select(
                *PLACE, *(one.cast(pl.Float64).alias(f"{name}{at}") for name, one in zip("ab", self[1:], strict=True))
            )
            whole = part if whole is None else whole.join(part, on=PLACE)
        assert whole is not None
        summed = whole.drop_nulls().group_by("prompt").agg(pl.exclude(PLACE).sum()).sort("prompt")
        return [column.to_numpy() for column in summed.drop("prompt").iter_columns()]


def estimate(figure: Ratio, mine: pl.DataFrame) -> Estimate:
    """The figure of a cell, with its interval over prompts; `NONE` without rows."""
    return ratio(*figure.sums(mine)) if mine.height else NONE


def error(figure: Ratio, mine: pl.DataFrame) -> float:
    """Standard error of the figure of a cell across prompts; NaN for fewer than two."""
    return ratio_error(*figure.sums(mine)) if mine.height else math.nan


def paired(
    compare: Callable[..., Estimate], figure: Ratio, mine: pl.DataFrame, theirs: pl.DataFrame | None
) -> Estimate:
    """Two cells compared on what both were measured on; `NONE` where there is nothing.

    Parameters
    ----------
    compare : callable
        `otspec.bench.intervals.difference` or `quotient`.
    figure : Ratio
    mine, theirs : DataFrame
        Rows by what they were measured on; None where there are none.
    """
    return NONE if theirs is None else compare(*figure.sums(mine, theirs))

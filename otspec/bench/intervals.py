"""Figures of a benchmark with their intervals: sums over sums of the rows of a cell, alone and of two compared."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from otspec.laws import FloatArray
from otspec.reporting.means import Row, number, standard_error

LEVEL = 0.95
RESAMPLES = 9999
BATCH = 1000
"""Resamples held in memory at once."""
FEWEST = 5
"""Prompts from which an interval is made: fewer can be drawn in too few ways."""


@dataclass(frozen=True)
class Estimate:
    """A figure and its interval; the ends are NaN where there are fewer than `FEWEST` prompts, and all where none."""

    value: float
    low: float = math.nan
    high: float = math.nan

    def shown(self, digits: str) -> str:
        """The figure and its interval with digits as `format` takes them; a dash where there is no figure."""
        if math.isnan(self.value):
            return "-"
        interval = "" if math.isnan(self.low) else f" [{self.low:{digits}}, {self.high:{digits}}]"
        return f"{self.value:{digits}}{interval}"

    def along(self, letter: str) -> Row:
        """The figure and the ends of its interval as a chart has them, along its axis of that letter."""
        return {letter: number(self.value), "low": number(self.low), "high": number(self.high)}


NONE = Estimate(math.nan)


def ratio(tokens: FloatArray, calls: FloatArray) -> Estimate:
    """Ratio of two sums, of what prompts have a share of each: shapes (prompts,)."""
    return _estimate(_ratio, tokens, calls)


def ratio_error(tokens: FloatArray, calls: FloatArray) -> float:
    """Standard error of `ratio` across prompts, to first order; NaN for fewer than two."""
    if tokens.size < 2:
        return math.nan
    off = tokens - tokens.sum() / calls.sum() * calls
    return standard_error(off) / float(calls.mean())


def difference(tokens: FloatArray, calls: FloatArray, their_tokens: FloatArray, their_calls: FloatArray) -> Estimate:
    """Difference of two ratios of sums over the same prompts: ours minus theirs."""
    return _estimate(
        lambda a, b, c, d, axis: _ratio(a, b, axis) - _ratio(c, d, axis), tokens, calls, their_tokens, their_calls
    )


def quotient(tokens: FloatArray, seconds: FloatArray, their_tokens: FloatArray, their_seconds: FloatArray) -> Estimate:
    """Quotient of two ratios of sums over the same prompts: ours over theirs."""
    return _estimate(
        lambda a, b, c, d, axis: _ratio(a, b, axis) / _ratio(c, d, axis), tokens, seconds, their_tokens, their_seconds
    )


def mean(figures: Sequence[Estimate]) -> Estimate:
    """The simple average of figures of disjoint prompts, such as a mean over tasks; `NONE` where one of them is none.

    Its interval is made of theirs [zou2008construction]: as far below as the root of the sum of squares of how far
    below each of theirs reaches, over their number, and likewise above.
    """
    values = np.array([one.value for one in figures])
    if values.size == 0 or np.isnan(values).any():
        return NONE
    lows, highs = np.array([(one.low, one.high) for one in figures]).T
    value, below, above = (float(one) for one in (values.mean(), *map(np.linalg.norm, (values - lows, highs - values))))
    return Estimate(value, value - below / values.size, value + above / values.size)


def _ratio(above: FloatArray, below: FloatArray, axis: int) -> FloatArray:
    return above.sum(axis=axis) / below.sum(axis=axis)


def _estimate(statistic: Callable[..., FloatArray], *columns: FloatArray) -> Estimate:
    """The statistic, and its bootstrap interval over prompts: bias-corrected and accelerated [efron1987better].

    All columns are resampled alike, so that what a prompt does to both sides of a comparison cancels.  Where all
    resamples agree, or all lie on one side of the figure, that correction does not exist, and plain percentiles stand.
    """
    if columns[0].size == 0:
        return NONE
    value = float(statistic(*columns, axis=-1))
    if columns[0].size < FEWEST:
        return Estimate(value)
    from scipy.stats import DegenerateDataWarning, bootstrap  # a second of import that most commands do not need

    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", DegenerateDataWarning)
        drawn = bootstrap(
            columns,
            statistic,
            paired=True,
            vectorized=True,
            n_resamples=RESAMPLES,
            batch=BATCH,
            confidence_level=LEVEL,
            rng=np.random.default_rng(0),
        )
    low, high = drawn.confidence_interval
    if not (np.isfinite(low) and np.isfinite(high)):
        low, high = np.quantile(drawn.bootstrap_distribution, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Estimate(value, float(low), float(high))


PLACE = ("prompt", "place")
"""Columns with what was measured: the prompt, or the position, and which of several there (a repeat, a tree)."""
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
    """Two cells compared, by `difference` or `quotient`, on what both were measured on; else `NONE`."""
    return NONE if theirs is None else compare(*figure.sums(mine, theirs))

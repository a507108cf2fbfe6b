"""Means with their standard errors, and records by what they are of."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from otspec.laws import FloatArray
from otspec.reporting.tables import NOTHING

Item = TypeVar("Item")
Group = TypeVar("Group", bound=Hashable)
Row = dict[str, Any]
"""A point of a chart: the value of every field, `SERIES` among them."""
SERIES = "series"
"""The field with the line, dot or column that a point belongs to."""


def number(value: float) -> float | None:
    """A number for JSON, which has none for NaN."""
    return None if math.isnan(value) else float(value)


def group_by(records: Iterable[Item], of: Callable[[Item], Group]) -> dict[Group, list[Item]]:
    """Records by what each is of, in the order in which they come."""
    found: dict[Group, list[Item]] = {}
    for record in records:
        found.setdefault(of(record), []).append(record)
    return found


def standard_error(values: FloatArray) -> float:
    """Of the mean of values, shape (count,); NaN for fewer than two."""
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else float("nan")


def welch(one: Sequence[float], other: Sequence[float]) -> tuple[str, str]:
    """Welch's t and p that both have one mean, as printed in tables; positive where the first is larger."""
    if min(len(one), len(other)) < 2 or np.ptp(one) == np.ptp(other) == 0:
        return NOTHING, NOTHING
    from scipy.stats import ttest_ind  # a second of import that nothing else here needs

    found = ttest_ind(one, other, equal_var=False)
    return f"{found.statistic:.2f}", f"{found.pvalue:.3f}"


def means(
    records: Iterable[Mapping[str, Any]], *, x: str, y: str, series: str | Callable[[Mapping[str, Any]], str]
) -> list[Row]:
    """Means of a figure of records, with one standard error to both sides, as charts take them.

    Parameters
    ----------
    records : iterable of mappings
        One for each measurement.
    x, y : str
        Fields of the records: where a figure stands, and the figure.
    series : str or callable
        What it belongs to: a field, or the name that a record has.

    Returns
    -------
    list of mappings
        For `otspec.reporting.charts.line_chart`: a row for every series and x, in the order in which they come.

    Examples
    --------
    >>> from otspec.reporting.means import means
    >>> records = [{"n": 2, "law": "greedy", "acceptance": a} for a in (0.7, 0.9)]
    >>> [{name: round(value, 2) if name != "series" else value for name, value in row.items()}
    ...  for row in means(records, x="n", y="acceptance", series="law")]
    [{'series': 'greedy', 'x': 2, 'y': 0.8, 'low': 0.7, 'high': 0.9}]
    """
    samples: dict[tuple[str, Any], list[float]] = {}
    for record in records:
        name = str(record[series]) if isinstance(series, str) else series(record)
        samples.setdefault((name, record[x]), []).append(float(record[y]))
    return [mean_of(values, x=at, series=name) for (name, at), values in samples.items()]


def mean_of(values: Iterable[float], *, x: Any, series: str) -> Row:
    """The mean of some values with one standard error to both sides, as a row of a chart."""
    found = np.array(list(values), dtype=float)
    mean, error = float(found.mean()), standard_error(found)
    return {SERIES: series, "x": x, "y": mean, "low": number(mean - error), "high": number(mean + error)}

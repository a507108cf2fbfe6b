"""Means with their errors, and what one has over another on the same draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.reporting import Record
from otspec.laws import FloatArray
from otspec.reporting.means import standard_error


def compared(values: Mapping[str, FloatArray], over: Sequence[str] = (), figure: str = "accepted") -> dict[str, Record]:
    """Means by name, and gains over some of the names, draw by draw.

    Parameters
    ----------
    values : mapping of str to array, shape (draws,)
        Of the same draws, by what was measured on them.
    over : sequence of str
        Names to compare with; those without values are left out.
    figure : str
        What the mean is called in a record.

    Returns
    -------
    dict of str to dict
        By name the fields of a record: the mean; ``error``, its standard error; and ``gains``, by name a mean
        difference with its standard error.
    """
    bases = {base: values[base] for base in over if base in values}
    return {
        name: {
            figure: float(mine.mean()),
            "error": standard_error(mine),
            "gains": {base: [float((mine - its).mean()), standard_error(mine - its)] for base, its in bases.items()},
        }
        for name, mine in values.items()
    }


def ratio(sums: FloatArray, of: FloatArray) -> tuple[float, float]:
    """Ratio of two sums over prompts, and its standard error across them to first order.

    Parameters
    ----------
    sums, of : array, shape (prompts,)

    Returns
    -------
    tuple of float
        The error is NaN for fewer than two prompts.
    """
    found = float(sums.sum() / of.sum())
    if of.size < 2:
        return found, float("nan")
    return found, float((sums - found * of).std(ddof=1) / of.mean() / np.sqrt(of.size))

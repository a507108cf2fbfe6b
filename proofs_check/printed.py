"""Arithmetic of printed tables, which are in printed.toml.  Cells stay words, so that their last digit is known."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import numpy as np

from otspec.laws import FloatArray

TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def table(source: str, name: str) -> dict[str, dict[str, str]]:
    """A printed table: its cells, as words, by row and column."""
    columns, *rows = TABLES[source][name].items()
    heads = columns[1].split()
    return {row: dict(zip(heads, cells.split(), strict=True)) for row, cells in rows}


def number(cell: str) -> float:
    """The number that is printed."""
    return float(_decimal(cell))


def numbers(cells: Sequence[str]) -> FloatArray:
    """The numbers that are printed."""
    return np.array([number(cell) for cell in cells])


def half_unit(cell: str) -> float:
    """Half a unit in the last printed place: what rounding may hide."""
    exponent = _decimal(cell).as_tuple().exponent
    assert isinstance(exponent, int), f"{cell!r} is not finite"
    return 0.5 * 10.0**exponent


def shifted(cell: str, units: int) -> str:
    """What is printed, so many units in the last printed place up."""
    return str(_decimal(cell) + units * 2 * Decimal(str(half_unit(cell)))) if units else cell


def agreement(printed: str, low: float, high: float) -> float:
    """How far inside, or with a minus sign outside, what rounds to a printed number and [low, high] overlap."""
    value, slack = number(printed), half_unit(printed)
    return min(high - (value - slack), value + slack - low)


def average(cells: Sequence[str], mean: str, units: int = 0, **labels: str) -> float:
    """Whether a printed mean, or so many units more, can be that of the numbers behind printed cells."""
    found, slack = float(numbers(cells).mean()), half_unit(cells[0])
    return agreement(shifted(mean, units), found - slack, found + slack)


def above(more: str, less: str, by: float = 0.0, **labels: str) -> float:
    """Positive where one printed number is above another of as many digits, by so much; negative at a tie, too."""
    return number(more) - number(less) - half_unit(less) - by


def _decimal(cell: str) -> Decimal:
    return Decimal(str(cell).replace(",", ""))

"""Arithmetic of printed tables.  Cells stay the words that are printed, so that their last digit is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from otspec.laws import FloatArray
from otspec.proofs_check.claim import Claim
from otspec.proofs_check.search import Instance, Listed


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
    return str(_decimal(cell) + units * 2 * Decimal(str(half_unit(cell))))


def agreement(printed: str, low: float, high: float) -> float:
    """How far inside, or with a minus sign outside, what rounds to a printed number and [low, high] overlap."""
    value, slack = number(printed), half_unit(printed)
    return min(high - (value - slack), value + slack - low)


def average(cells: Sequence[str], mean: str, **labels: str) -> float:
    """Whether a printed mean can be that of the numbers behind printed cells."""
    found, slack = float(numbers(cells).mean()), half_unit(cells[0])
    return agreement(mean, found - slack, found + slack)


def above(more: str, less: str, **labels: str) -> float:
    """Positive where one printed number is above another of as many digits; negative at a tie, too."""
    return number(more) - number(less) - half_unit(less)


def listed(
    name: str, statement: str, source: str, rows: Sequence[Instance], margin: Callable[..., float], **more: Any
) -> Claim:
    """A claim about all of a list, such as the rows of a table."""

    def draw(rng: np.random.Generator) -> Instance:
        return rows[int(rng.integers(len(rows)))]

    return Claim(name, statement, source, draw, margin, search=Listed(lambda: rows), **more)


def _decimal(cell: str) -> Decimal:
    return Decimal(str(cell).replace(",", ""))

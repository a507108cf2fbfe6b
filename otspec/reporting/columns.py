"""Tables as lists of columns: what each is called, and what it shows of an item."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from otspec.reporting.tables import TextTable

Item = TypeVar("Item")
NOTHING = "-"
"""What stands where there is no figure."""


@dataclass(frozen=True)
class Column(Generic[Item]):
    """One column of a table."""

    name: str
    show: Callable[[Item], str]
    label: bool = False
    """Whether it holds words; such columns come first."""
    detail: bool = False
    """Whether a narrow screen goes without it."""


def table(title: str, columns: Sequence[Column[Item]], items: Iterable[Item], note: str = "") -> TextTable:
    """A table with a row for every item."""
    return TextTable(
        title,
        tuple(column.name for column in columns),
        [tuple(column.show(item) for column in columns) for item in items],
        note,
        labels=sum(column.label for column in columns),
        details=frozenset(column.name for column in columns if column.detail),
    )


def figure(value: float | None, digits: str) -> str:
    """A number with digits as `format` takes them; a dash where it is None or NaN."""
    return NOTHING if value is None or math.isnan(value) else f"{value:{digits}}"


def milliseconds(value: float) -> str:
    """Three significant digits, never in exponent form."""
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"

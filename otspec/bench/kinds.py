"""What each benchmark records, and what is made of its records: a declaration for each, found by its name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from otspec.bench.ratios import Ratio
from otspec.bench.records import Record
from otspec.bench.report import Report, Run

KINDS = ("solvers", "decoding", "paths")
"""What runs are of: `otspec bench`, `otspec bench decode` and `otspec bench paths`."""


@dataclass(frozen=True)
class Kind:
    """One benchmark."""

    name: str
    """One of `KINDS`, as run.json has it."""
    cell_of: Callable[[Record], Any]
    """The cell that a record is of, a frozen dataclass."""
    cell: type
    """That dataclass; its fields are columns of the frame."""
    frame: Callable[[Sequence[Record]], pl.DataFrame]
    """Records as a frame that says what of its cell each is of, by the columns `otspec.bench.ratios.PLACE`."""
    size: Callable[[Any], Any]
    """What cells are sorted by where two runs are compared."""
    finished: pl.Expr
    """Whether a row counts where two runs are compared."""
    paired: str
    """What rows are paired by, in the plural."""
    time: Ratio
    """Milliseconds."""
    figure: Ratio
    """What is compared beside time."""
    labels: Callable[[Any], tuple[str, str]]
    """What a cell is called in a table: where it was measured, and the solver or rule."""
    report: Callable[[Run], Report | None]
    """The report on a run; None while it has no records."""
    pictures: Callable[[Mapping[str, Any]], Sequence[str]]
    """Names of the pictures that a run of an identity may have."""


def kind_of(name: str) -> Kind:
    """The declaration of a benchmark by its name, one of `KINDS`; only that benchmark is imported."""
    found: Kind = importlib.import_module(f"otspec.bench.{name}.kind").KIND
    return found

"""Cells of the benchmark of recorded trees: one rule on the trees of one file."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from otspec.bench.ratios import Ratio
from otspec.bench.records import Record


@dataclass(frozen=True)
class PathsCell:
    """One rule on the trees of one file."""

    data: str
    """Name of the file."""
    rule: str
    """Spelling of the rule."""
    paths: int
    """K."""
    depth: int
    """L."""


CELL = ("data", "rule", "paths", "depth")
TIME = Ratio("ms", 1e3 * pl.col("wall_s"))
ACCEPTED = Ratio("accepted tokens", pl.col("accepted"))


def paths_cell_of(record: Record) -> PathsCell:
    """The cell that a record is of."""
    return PathsCell(*(record[name] for name in CELL))

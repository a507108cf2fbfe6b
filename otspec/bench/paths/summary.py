"""Cells of the benchmark of recorded trees, a rule on the trees of a file, and what their records come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from polars import col

from otspec.bench.frame import by_cell, frame_of
from otspec.bench.intervals import NONE, Ratio, difference, error, estimate, paired, quotient
from otspec.bench.records import Record
from otspec.bench.schema import SCHEMAS


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


Row = Mapping[str, Any]
"""Figures of a cell, by the names of the columns of `summarise`."""
REFERENCE = "interval"
"""The rule that others are compared with: optimal token by token."""


def frame(records: Sequence[Record]) -> pl.DataFrame:
    """A row for every rule on a tree."""
    return frame_of(records, SCHEMAS["paths"]).with_columns(place="position")


def summarise(records: Sequence[Record], reference: str = REFERENCE) -> list[Row]:
    """A row for every cell with a record: file by file, the rule that accepts most first.

    Returns
    -------
    list of mappings
        Beside data, rule, paths and depth: the numbers of ``trees`` and ``prompts``; whether the rule is ``lossless``,
        and its ``label``; ``accepted``, the mean number of accepted tokens, its standard ``error``, and ``gain``, what
        it accepts more than the reference on the trees that both have; ``reach``, P(at least 1, ..., L are accepted);
        ``median_ms`` of one verification, and its ``time`` over the reference's; and ``message``, why it stopped, if
        its solver failed.  Intervals are over prompts (`otspec.bench.intervals`).
    """
    cells = by_cell(frame(records), CELL)
    trees = {cell: mine.filter(col("message") == "") for cell, mine in cells.items()}
    found = [_row(cell, rows, trees, reference) for cell, rows in cells.items()]
    files = list(dict.fromkeys(one["data"] for one in found))
    return sorted(found, key=lambda one: (files.index(one["data"]), -np.nan_to_num(one["accepted"].value)))


def _row(
    cell: tuple[Any, ...], rows: pl.DataFrame, trees: Mapping[tuple[Any, ...], pl.DataFrame], reference: str
) -> Row:
    data, rule, *shape = cell
    mine, theirs = trees[cell], trees.get((data, reference, *shape))
    lossless = bool(mine["lossless"].all())
    failures = rows["message"].filter(rows["message"] != "")
    alone = rule == reference
    return {
        **dict(zip(CELL, cell, strict=True)),
        "trees": mine.height,
        "prompts": mine["prompt"].n_unique(),
        "lossless": lossless,
        "label": rule if lossless else f"{rule} (lossy)",
        "accepted": estimate(ACCEPTED, mine),
        "error": error(ACCEPTED, mine),
        "gain": NONE if alone else paired(difference, ACCEPTED, mine, theirs),
        "reach": np.mean(mine["reach"].drop_nulls().to_list() or [[]], axis=0).tolist(),
        "median_ms": float(np.median(1e3 * mine["wall_s"].drop_nulls().to_numpy())) if mine.height else float("nan"),
        "time": NONE if alone else paired(quotient, TIME, mine, theirs),
        "message": failures[-1] if failures.len() else "",
    }

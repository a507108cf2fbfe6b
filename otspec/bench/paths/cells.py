"""Cells of the benchmark of recorded trees: one rule on the trees of one file."""

from __future__ import annotations

from dataclasses import dataclass

from otspec.bench.ratios import Place, Ratio
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


def paths_cell_of(record: Record) -> PathsCell:
    """The cell that a record is of."""
    return PathsCell(record["data"], record["rule"], record["paths"], record["depth"])


def place_of(record: Record) -> Place:
    """The tree of a record: its prompt, and its number in the file."""
    return record["prompt"], record["position"]


TIME = Ratio("ms", lambda record: 1e3 * record["wall_s"])
ACCEPTED = Ratio("accepted tokens", lambda record: record["accepted"])

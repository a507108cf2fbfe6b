"""Two runs on the same positions or prompts, figure by figure: ratios of what was measured on the same things."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

import polars as pl

from otspec.bench.frame import by_cell
from otspec.bench.intervals import NONE, PLACE, Estimate, Ratio, quotient
from otspec.bench.records import Difference, differences
from otspec.bench.report import BenchmarkKind, kind_of
from otspec.bench.stored import StoredRun
from otspec.errors import DataError
from otspec.reporting.means import number
from otspec.reporting.tables import Column, TextTable, figure, milliseconds, table

ByCell = Mapping[Any, pl.DataFrame]
"""What a run has finished, by cell."""
PROMPTS = "prompts"
"""What stands for the data of cells that have none."""


class Quantity(NamedTuple):
    """A ratio of sums in both runs, over the same positions or texts; NaN where there are none."""

    first: float
    second: float
    ratio: Estimate
    """The second over the first."""

    def record(self) -> dict[str, float | None]:
        """For JSON, where NaN is null."""
        found = {"first": self.first, "second": self.second} | self.ratio.along("ratio")
        return {name: None if value is None else number(value) for name, value in found.items()}


class Compared(NamedTuple):
    """One cell in both runs."""

    cell: Any
    """As the `otspec.bench.report.BenchmarkKind` of the runs has it."""
    pairs: int
    """Positions or prompts that both have."""
    time: Quantity
    """Milliseconds: of a position, of a token, or of a verification."""
    figure: Quantity
    """Mean acceptance, block efficiency, or accepted tokens."""


@dataclass(frozen=True)
class Comparison:
    """What two runs have in common, and what sets them apart."""

    kind: BenchmarkKind
    names: tuple[str, str]
    """Of the two folders."""
    rows: list[Compared]
    unpaired: tuple[list[str], list[str]]
    """Cells that one of the two has alone, or with nothing that both finished."""
    differences: list[Difference]
    """In machine, versions and settings."""

    def record(self) -> dict[str, Any]:
        """For JSON."""
        name = self.kind.figure.name.replace(" ", "_")
        return {
            "benchmark": self.kind.name,
            "first": self.names[0],
            "second": self.names[1],
            "differences": {one.name: [one.one, one.other] for one in self.differences},
            "unpaired": dict(zip(("first", "second"), self.unpaired, strict=True)),
            "cells": [
                {**asdict(row.cell), "pairs": row.pairs, "time_ms": row.time.record(), name: row.figure.record()}
                for row in self.rows
            ],
        }

    def table(self) -> TextTable:
        """Both runs side by side."""
        unit, name, paired = self.kind.time.name, self.kind.figure.name, self.kind.paired
        columns: Sequence[Column[Compared]] = (
            Column("cell", lambda row: self.kind.labels(row.cell)[0], label=True),
            Column("rule", lambda row: self.kind.labels(row.cell)[1], label=True),
            Column(paired, lambda row: str(row.pairs)),
            Column(f"{unit} A", lambda row: milliseconds(row.time.first)),
            Column(f"{unit} B", lambda row: milliseconds(row.time.second)),
            Column("time B/A", lambda row: row.time.ratio.shown(".3f")),
            Column(f"{name} A", lambda row: figure(row.figure.first, ".4f"), detail=True),
            Column("B", lambda row: figure(row.figure.second, ".4f"), detail=True),
            Column(f"{name} B/A", lambda row: row.figure.ratio.shown(".4f")),
        )
        note = (
            f"A: {self.names[0]}; B: {self.names[1]}. Over the {paired} that both finished, and no others. Ratios of "
            f"sums, in brackets 95 % intervals where there are 5 {paired} or more: paired bootstrap over {paired}, "
            "bias-corrected and accelerated. Below 1 in time: B is faster."
        )
        return table("B compared with A", columns, self.rows, note)


def compare(first: StoredRun, second: StoredRun) -> Comparison:
    """Pair two runs by cell and position, or by cell, prompt and repeat.

    Raises
    ------
    DataError
        If they have nothing in common.
    """
    if first.kind != second.kind:
        raise DataError(
            f"{first.path} is a run of {first.kind}, {second.path} of {second.kind}; compare runs of one command"
        )
    kind = kind_of(first.kind)
    other = _other_data(first.identity, second.identity)
    one, two = (_finished(kind, run, other) for run in (first, second))
    pairs = [(cell, mine, mine.join(two[cell], on=PLACE)) for cell, mine in one.items() if cell in two]
    rows = [
        Compared(
            cell, both["prompt"].n_unique(), *(_quantity(one, mine, two[cell]) for one in (kind.time, kind.figure))
        )
        for cell, mine, both in pairs
        if both.height
    ]
    if not rows:
        raise DataError(_nothing_in_common(kind, first, second, (one, two), other))
    both = {row.cell for row in rows}
    unpaired = [[" ".join(kind.labels(cell)) for cell in held if cell not in both] for held in (one, two)]
    apart = list(differences(first.identity, second.identity))
    return Comparison(kind, (str(first.path), str(second.path)), rows, (unpaired[0], unpaired[1]), apart)


def _finished(kind: BenchmarkKind, run: StoredRun, without: Sequence[str]) -> ByCell:
    """What a run has finished, but of some data."""
    frame = kind.frame(run.records).filter(kind.finished)
    held = {kind.cell(*key): rows for key, rows in by_cell(frame, [one.name for one in fields(kind.cell)]).items()}
    return {cell: held[cell] for cell in sorted(held, key=kind.size) if getattr(cell, "data", PROMPTS) not in without}


def _other_data(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Names of data that are not the same in both: a position of theirs is not the same either.

    Prompts that differ are one such name, the only one.
    """
    if PROMPTS in first:
        return [] if first[PROMPTS] == second[PROMPTS] else [PROMPTS]
    one, two = ({name: _contents(data) for name, data in run["data"].items()} for run in (first, second))
    return [name for name in one if one[name] != two.get(name)]


def _contents(data: Any) -> Any:
    """The data of an identity, but for the code that they were measured by."""
    return {name: value for name, value in data.items() if name != "measured_by"} if isinstance(data, dict) else data


def _quantity(ratio: Ratio, mine: pl.DataFrame, theirs: pl.DataFrame) -> Quantity:
    above, below, their_above, their_below = ratio.sums(mine, theirs)
    if not above.size:
        return Quantity(math.nan, math.nan, NONE)
    first, second = above.sum() / below.sum(), their_above.sum() / their_below.sum()
    return Quantity(float(first), float(second), quotient(their_above, their_below, above, below))


def _nothing_in_common(
    kind: BenchmarkKind, first: StoredRun, second: StoredRun, held: tuple[ByCell, ByCell], other: Sequence[str]
) -> str:
    if other:
        return f"{first.path} and {second.path} have nothing in common: their {', '.join(other)} are not the same"
    shown = [", ".join(dict.fromkeys(" ".join(kind.labels(cell)) for cell in one)) or "nothing" for one in held]
    return (
        f"{first.path} and {second.path} have nothing in common that both finished; the first has {shown[0]}; "
        f"the second has {shown[1]}"
    )

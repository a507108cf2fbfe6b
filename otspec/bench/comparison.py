"""Two runs on the same positions or prompts, figure by figure: ratios of what was measured on the same things."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from otspec.bench.intervals import Estimate, by_prompt, quotient
from otspec.bench.records import cell_of
from otspec.bench.report import milliseconds
from otspec.bench.stored import Difference, StoredRun, differences
from otspec.errors import DataError
from otspec.reporting.tables import TextTable

if TYPE_CHECKING:
    from otspec.bench.cells import Cell
    from otspec.bench.decoding_cells import DecodingCell
    from otspec.bench.paths import PathsCell

FIGURES = {"solvers": "acceptance", "decoding": "block efficiency", "paths": "accepted tokens"}
"""What is compared beside time."""
UNITS = {"solvers": ("ms", "positions"), "decoding": ("ms/token", "prompts"), "paths": ("ms", "prompts")}
"""Of time, and what is paired."""


@dataclass(frozen=True)
class Quantity:
    """A ratio of sums in both runs, over the same positions or texts."""

    first: float
    second: float
    ratio: Estimate
    """The second over the first."""

    def record(self) -> dict[str, Any]:
        """For JSON, where NaN is null."""
        found = {"first": self.first, "second": self.second, "ratio": self.ratio.value}
        found |= {"low": self.ratio.low, "high": self.ratio.high}
        return {name: None if math.isnan(value) else value for name, value in found.items()}


@dataclass(frozen=True)
class Compared:
    """One cell in both runs."""

    cell: Cell | DecodingCell | PathsCell
    pairs: int
    """Positions or prompts that both have."""
    time: Quantity
    """Milliseconds: of a position, or of a token."""
    figure: Quantity
    """Mean acceptance, or block efficiency."""


@dataclass(frozen=True)
class Comparison:
    """What two runs have in common, and what sets them apart."""

    kind: str
    """One of `otspec.bench.stored.KINDS`."""
    names: tuple[str, str]
    """Of the two folders."""
    rows: list[Compared]
    unpaired: tuple[list[str], list[str]]
    """Cells that one of the two has alone, or with nothing that both finished."""
    differences: list[Difference]
    """In machine, versions and settings."""

    def record(self) -> dict[str, Any]:
        """For JSON."""
        figure = FIGURES[self.kind].replace(" ", "_")
        return {
            "benchmark": self.kind,
            "first": self.names[0],
            "second": self.names[1],
            "differences": {one.name: [one.one, one.other] for one in self.differences},
            "unpaired": dict(zip(("first", "second"), self.unpaired, strict=True)),
            "cells": [
                {**asdict(row.cell), "pairs": row.pairs, "time_ms": row.time.record(), figure: row.figure.record()}
                for row in self.rows
            ],
        }

    def table(self) -> TextTable:
        """Both runs side by side."""
        figure, (unit, paired) = FIGURES[self.kind], UNITS[self.kind]
        labels = [_labels(row.cell) for row in self.rows]
        rows = [
            (
                *label,
                str(row.pairs),
                *map(milliseconds, (row.time.first, row.time.second)),
                row.time.ratio.shown(".3f"),
                *("-" if math.isnan(value) else f"{value:.4f}" for value in (row.figure.first, row.figure.second)),
                row.figure.ratio.shown(".4f"),
            )
            for label, row in zip(labels, self.rows, strict=True)
        ]
        header = ("cell", "rule", paired, f"{unit} A", f"{unit} B", "time B/A", f"{figure} A", "B", f"{figure} B/A")
        note = (
            f"A: {self.names[0]}; B: {self.names[1]}. Over the {paired} that both finished, and no others. Ratios of "
            f"sums, in brackets 95 % intervals where there are 5 {paired} or more: paired bootstrap over {paired}, "
            "bias-corrected and accelerated. Below 1 in time: B is faster."
        )
        details = frozenset((f"{figure} A", "B"))
        return TextTable("B compared with A", header, rows, note, details=details)


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
    names = str(first.path), str(second.path)
    apart = list(differences(first.identity, second.identity))
    held = [_HELD[run.kind](run) for run in (first, second)]
    for data in _other_data(first.identity, second.identity):
        held = [{cell: mine for cell, mine in one.items() if getattr(cell, "data", data) != data} for one in held]
    rows = []
    for cell in held[0]:
        common = held[0][cell].keys() & held[1].get(cell, {}).keys()
        if common:
            rows.append(
                _compared(cell, [(place, held[0][cell][place], held[1][cell][place]) for place in sorted(common)])
            )
    if not rows:
        raise DataError(_nothing_in_common(first, second, held))
    both = {row.cell for row in rows}
    unpaired = [[" ".join(_labels(cell)) for cell in one if cell not in both] for one in held]
    return Comparison(first.kind, names, rows, (unpaired[0], unpaired[1]), apart)


Place = tuple[int, int]
"""What is paired, and which of several there: a position, or a prompt and a repeat, or a prompt and a tree."""
Figures = tuple[float, float, float, float]
"""Milliseconds and what they are divided by, and a figure and what that is divided by."""
Held = dict[Any, dict[Place, Figures]]
"""What a run has, by cell."""


def _solvers(run: StoredRun) -> Held:
    """Positions that were solved; one without a plan has no acceptance."""
    found: Held = {}
    for record in sorted(run.records, key=lambda record: cell_of(record).size):
        if record["solved"]:
            accepted = record["acceptance"]
            known = (math.nan, 1.0) if accepted is None else (accepted, 1.0)
            found.setdefault(cell_of(record), {})[record["position"], 0] = (1e3 * record["wall_s"], 1.0, *known)
    return found


def _decoding(run: StoredRun) -> Held:
    """Texts with a token."""
    from otspec.bench.decoding_cells import decoding_cell_of

    found: Held = {}
    for record in run.records:
        if record["tokens"] and not record["trial"]:
            place = record["prompt"], record["repeat"]
            ms, tokens = 1e3 * sum(record["seconds"].values()), record["tokens"]
            found.setdefault(decoding_cell_of(record), {})[place] = (ms, tokens, tokens, record["sequence_steps"])
    return found


def _paths(run: StoredRun) -> Held:
    """Trees that were verified."""
    from otspec.bench.paths import paths_cell_of

    found: Held = {}
    for record in run.records:
        if record["wall_s"] is not None and not record["message"]:
            place, ms = (record["prompt"], record["position"]), 1e3 * record["wall_s"]
            found.setdefault(paths_cell_of(record), {})[place] = (ms, 1.0, record["accepted"], 1.0)
    return found


_HELD: Mapping[str, Callable[[StoredRun], Held]] = {"solvers": _solvers, "decoding": _decoding, "paths": _paths}


def _other_data(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Names of data that are not the same in both: a position of theirs is not the same either.

    Prompts that differ are one such name, the only one.
    """
    if "prompts" in first:
        return [] if first["prompts"] == second["prompts"] else ["prompts"]
    return [name for name in first["data"] if first["data"][name] != second["data"].get(name)]


def _compared(cell: Any, pairs: Sequence[tuple[Place, Figures, Figures]]) -> Compared:
    told = [pair for pair in pairs if not math.isnan(pair[1][2] + pair[2][2])]
    return Compared(
        cell,
        len({place[0] for place, *_ in pairs}),
        _quantity(pairs, lambda figures: figures[:2]),
        _quantity(told, lambda figures: figures[2:]),
    )


def _quantity(
    pairs: Sequence[tuple[Place, Figures, Figures]], part: Callable[[Figures], tuple[float, ...]]
) -> Quantity:
    if not pairs:
        return Quantity(math.nan, math.nan, Estimate(math.nan))
    one_above, one_below, two_above, two_below = by_prompt(
        [(place[0], (*part(one), *part(two))) for place, one, two in pairs]
    )
    first, second = one_above.sum() / one_below.sum(), two_above.sum() / two_below.sum()
    return Quantity(float(first), float(second), quotient(two_above, two_below, one_above, one_below))


def _labels(cell: Any) -> tuple[str, str]:
    """What a cell is called in a table."""
    if hasattr(cell, "setting"):
        return f"{cell.data} {cell.setting}".strip(), cell.solver
    if hasattr(cell, "data"):
        return f"{cell.data}, K = {cell.paths}, L = {cell.depth}", cell.rule
    shape = [f"{letter} = {count}" for letter, count in (("K", cell.paths), ("L", cell.depth)) if count]
    notes = [note for note in cell.notes if note != "one path"]
    return ", ".join([f"T = {cell.temperature:g}", *shape]), ", ".join([cell.name, *notes])


def _nothing_in_common(first: StoredRun, second: StoredRun, held: Sequence[Held]) -> str:
    other = _other_data(first.identity, second.identity)
    if other:
        return f"{first.path} and {second.path} have nothing in common: their {', '.join(other)} are not the same"
    told = [", ".join(dict.fromkeys(" ".join(_labels(cell)) for cell in one)) or "nothing" for one in held]
    return (
        f"{first.path} and {second.path} have nothing in common that both finished; the first has {told[0]}; "
        f"the second has {told[1]}"
    )

"""What cells of the decoding benchmark are called in tables and charts."""

from __future__ import annotations

from collections.abc import Sequence

from otspec.bench.decoding.cells import DecodingCell
from otspec.bench.decoding.summary import DecodingSummary

ONE_PATH = "one path"
"""The note that a number of paths tells as well."""


def label(one: DecodingSummary) -> str:
    """What a cell is called beside its K and L."""
    return _noted(one, one.cell.name, one.cell.notes)


def whole_label(one: DecodingSummary) -> str:
    """What a cell is called where nothing else tells its K and L."""
    return _noted(one, ", ".join([one.cell.name, *shape(one.cell)]), beside_shape(one.cell))


def shape(cell: DecodingCell) -> list[str]:
    """K and L, as far as there are any."""
    return [f"{letter} = {count}" for letter, count in (("K", cell.paths), ("L", cell.depth)) if count]


def details(cell: DecodingCell) -> str:
    """L, and what else is set."""
    return ", ".join([f"{cell.depth} tokens", *beside_shape(cell)])


def beside_shape(cell: DecodingCell) -> list[str]:
    """Notes that its K does not tell."""
    return [note for note in cell.notes if note != ONE_PATH]


def _noted(one: DecodingSummary, name: str, notes: Sequence[str]) -> str:
    marked = [*notes, *([] if one.lossless else ["lossy"])]
    return f"{name} ({', '.join(marked)})" if marked else name

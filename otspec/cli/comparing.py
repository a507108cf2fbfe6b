"""Two runs compared, on the screen and in the folder of the second."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from otspec.reporting.console import console
from otspec.writing import write_text

if TYPE_CHECKING:
    from otspec.bench.stored import StoredRun

SHOWN = 5
"""Cells of one run alone that are named on the screen."""
TEXT, FIGURES = "comparison.md", "comparison.json"
"""What is written into the folder."""


def read_runs(paths: Sequence[Path]) -> StoredRun:
    """The runs of several folders as one.

    Raises
    ------
    DataError
        If a folder holds no run, or they are not of one run.
    """
    from otspec.bench.stored import joined, read_run

    return joined([read_run(path) for path in paths])


def compare(against: Sequence[Path], folder: Path) -> None:
    """Compare a run with another on what both measured: ratios B/A of time, and of what is accepted.

    A pair is of the same cell and position, or of the same cell, prompt and repeat or tree; ratios have 95 %
    intervals.  What differs between the runs is named on stderr: machine, versions, settings.

    Parameters
    ----------
    against : sequence of Path
        Folders of A, parts of one run.
    folder : Path
        That of B, which gets the table and all figures.

    Raises
    ------
    DataError
        If a folder holds no run, or they have nothing in common.
    """
    from otspec.bench.comparison import compare as compared
    from otspec.bench.records import shown
    from otspec.bench.stored import read_run

    found = compared(read_runs(against), read_run(folder))
    table = found.table()
    console.print(table.on_screen(console.width))
    notes = [
        f"they differ in {'the machine: ' if machine else ''}{name}: A {shown(mine)}, B {shown(theirs)}"
        for name, mine, theirs, machine in ((*one, one.of_machine) for one in found.differences)
    ]
    for name, cells in zip("AB", found.unpaired, strict=True):
        if cells:
            more = f" and {len(cells) - SHOWN} more" if len(cells) > SHOWN else ""
            notes.append(f"only {name} has finished {', '.join(cells[:SHOWN])}{more}")
    for note in notes:
        typer.secho(f"note: {note}", fg="yellow", err=True)
    lines = "".join(f"- {note}\n" for note in notes)
    write_text(folder / TEXT, table.markdown() + (f"\n{lines}" if lines else ""))
    write_text(folder / FIGURES, json.dumps(found.record(), indent=2) + "\n")
    console.print(f"Wrote {folder}/{TEXT}, {FIGURES}", soft_wrap=True)

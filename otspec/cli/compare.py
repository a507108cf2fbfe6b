"""`otspec compare`: two folders of results, paired."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from otspec.cli import options
from otspec.reporting.console import console
from otspec.writing import write_text

_FOLDER = "A folder of results that `otspec bench`, its decode or paths, or `otspec merge` wrote"
SHOWN = 5
"""Cells of one run alone that are named on the screen."""


def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help=f"{_FOLDER}.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another folder of the same command.")],
    json_file: Annotated[Path | None, options.out_file("--json", help="A file to write all figures to.")] = None,
    markdown: Annotated[Path | None, options.out_file("--markdown", help="A file to write the table to.")] = None,
) -> None:
    """Compare two runs on what both measured: ratios B/A of time, and of what is accepted.

    A pair is of the same cell and position, or of the same cell, prompt and repeat or tree; ratios have 95 %
    intervals.  The command names on stderr what differs between the runs: machine, versions, settings.
    """
    from otspec.bench.comparison import compare as compared
    from otspec.bench.records import shown
    from otspec.bench.stored import read_run

    found = compared(read_run(first), read_run(second))
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
    if json_file is not None:
        write_text(json_file, json.dumps(found.record(), indent=2) + "\n")
    if markdown is not None:
        lines = "".join(f"- {note}\n" for note in notes)
        write_text(markdown, table.markdown() + (f"\n{lines}" if lines else ""))

"""`otspec merge`: folders of one run, or of runs on other data, joined into one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from otspec.cli.reports import report, written
from otspec.extras import require
from otspec.reporting.console import console


def merge(
    parts: Annotated[
        list[Path], typer.Argument(help="The folders to join, as `otspec bench`, its decode or its paths wrote them.")
    ],
    out: Annotated[Path, typer.Option(help="The folder for all records; what it holds of the same run stays.")],
) -> None:
    """Join folders into one with its report: shards of an array job, or what others measured of recordings of theirs.

    The order of the folders does not matter, a record that several have counts once, and the same command again adds
    what has come since: shards that were killed, and run again, lose nothing.  Folders that differ in settings or seed,
    or, where their data have one name, in these data, are refused, and so are those that differ in code or versions:
    of `bench paths` for each recording by itself.  Those of different machines are joined, and every record says which.
    """
    require("pyarrow")  # before the work, not after it
    from otspec.bench.merging import merge as merged_of

    merged = merged_of(parts, out)
    merged.folder.close()
    report(merged.folder)
    for path, rows in merged.rows.items():
        console.print(f"{path}: {rows:,} records", highlight=False, soft_wrap=True)
    for name, values in merged.machines.items():
        several = " and ".join(map(str, values))
        typer.secho(
            f"note: measured on different machines: {name} is {several}; compare times of one machine only",
            fg="yellow",
            err=True,
        )
    if absent := merged.absent:
        typer.secho(f"note: no folder is of shard {', '.join(absent)}", fg="yellow", err=True)
    doubled = f", {merged.doubled:,} of them in several folders" if merged.doubled else ""
    console.print(f"{len(merged.folder.records):,} records{doubled}", highlight=False)
    console.print(f"Wrote {out}/{', '.join(written(merged.folder))}", soft_wrap=True)

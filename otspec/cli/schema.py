"""`otspec schema`: what recorded files and folders of results hold, as JSON Schema; and whether one does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from otspec.errors import DataError
from otspec.extras import require
from otspec.reporting.console import console


def schema(
    name: Annotated[
        str | None,
        typer.Argument(
            help="recording, the header of recorded positions or trees; run, run.json of a folder of results; "
            "result, a line of its results.jsonl.",
            show_default="the list of these",
        ),
    ] = None,
    check: Annotated[
        list[Path] | None,
        typer.Option(
            help="A recorded file, a folder of these, or a folder of results to read to its end and hold against its "
            "schema; repeat it for more.",
        ),
    ] = None,
) -> None:
    """Print a JSON Schema, or check files against theirs: laws, trees and results that others can read and join.

    A file that is checked is read whole, every law of it; the first thing that is wrong is one line on stderr.
    """
    require("pydantic")
    from otspec.bench.json_schemas import KINDS, json_schema
    from otspec.data.recorded import SCHEMA

    if name is None and not check:
        console.print(f"Schemas, version {SCHEMA}:")
        for known, (title, _) in KINDS.items():
            console.print(f"  {known}: {title}")
    if name is not None:
        if name not in KINDS:
            raise DataError(f"no schema {name!r}; known: {', '.join(KINDS)}")
        typer.echo(json.dumps(json_schema(name), indent=2))
    for path in check or ():
        for line in _checked(path):
            console.print(line, highlight=False, soft_wrap=True)


def _checked(path: Path) -> list[str]:
    """What is there, a line each, once it has been read.

    Raises
    ------
    DataError
        If there is nothing, or something that is not as its schema has it.
    """
    from otspec.bench.header import check_recorded
    from otspec.bench.stored import read_run

    if (path / "run.json").is_file():
        run = read_run(path)
        return [f"{path}: a run of {run.kind}, {len(run.records):,} results, as schema {run.identity['schema']} has it"]
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files:
        raise DataError(f"{path} holds neither results nor recorded files; pass a folder or a file that otspec wrote")
    found = [(file, check_recorded(file)) for file in files]
    return [f"{file}: {one['positions']:,} {one['format']}, as schema {one['schema']} has it" for file, one in found]

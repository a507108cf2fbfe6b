"""The options of the scripts, and how they leave results that a person can read and a program too."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from otspec.data import Source, check_positions, open_source
from otspec.reporting.console import console
from otspec.reporting.tables import TextTable

Record = dict[str, Any]


class Options(NamedTuple):
    """The options of a script."""

    sources: list[Source]
    positions: int
    out: Path


def asking(description: str | None, data: str | None, positions: int | None) -> argparse.ArgumentParser:
    """A command line with options for data and positions; the arguments are its defaults."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=data, help="a profile or a file of positions; some scripts take a list")
    parser.add_argument("--positions", type=int, default=positions, help="positions per profile")
    return parser


def options(description: str, data: str, positions: int, out: str) -> Options:
    """Read the command line of a script that leaves a folder."""
    parser = asking(description, data, positions)
    parser.add_argument("--out", type=Path, default=Path(out), help="folder for the results")
    request = parser.parse_args()
    return options_of(request.data, request.positions, request.out)


def options_of(data: str, positions: int, out: Path) -> Options:
    """The options, checked, and the folder made."""
    sources = [open_source(name) for name in data.split(",")]
    for source in sources:
        check_positions(source, positions)
    out.mkdir(parents=True, exist_ok=True)
    return Options(sources, positions, out)


def measure_and_tell(
    request: Options,
    measure: Callable[[Source, int], Iterable[Record]],
    table: Callable[[str, list[Record]], TextTable],
    draw: Callable[[dict[str, list[Record]], Path], None],
    picture: str,
) -> None:
    """Measure the sources one by one, draw all of them into a picture, and leave a table each."""
    records = {source.name: list(measure(source, request.positions)) for source in request.sources}
    draw(records, request.out / picture)
    tables = [table(name, mine) for name, mine in records.items()]
    finish(request.out, [record for mine in records.values() for record in mine], tables, [picture])


def finish(out: Path, records: Iterable[Record], tables: Sequence[TextTable], pictures: Sequence[str]) -> None:
    """Write records.jsonl and report.md, and print the tables."""
    (out / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    shown = [f"![{picture}]({picture})\n" for picture in pictures]
    (out / "report.md").write_text("\n".join([*shown, *(table.markdown() for table in tables)]))
    show(*tables)
    console.print(f"Wrote {', '.join(str(out / name) for name in ('records.jsonl', 'report.md', *pictures))}")


def show(*tables: TextTable) -> None:
    """Print tables."""
    for table in tables:
        console.print(table.on_screen(console.width))

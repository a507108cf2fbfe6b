"""How the scripts are asked, and how they leave results that a person can read and a program too."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from otspec.data import Source, check_positions, open_source
from otspec.reporting.console import console
from otspec.reporting.tables import TextTable

Record = dict[str, Any]


class Options(NamedTuple):
    """What a script was asked for."""

    sources: list[Source]
    positions: int
    out: Path


def options(description: str, data: str, positions: int, out: str) -> Options:
    """Read the command line; the arguments are its defaults."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", default=data, help="profiles or files of positions, a list")
    parser.add_argument("--positions", type=int, default=positions, help="positions per profile")
    parser.add_argument("--out", type=Path, default=Path(out), help="folder for the results")
    given = parser.parse_args()
    sources = [open_source(name) for name in given.data.split(",")]
    for source in sources:
        check_positions(source, given.positions)
    given.out.mkdir(parents=True, exist_ok=True)
    return Options(sources, given.positions, given.out)


def finish(out: Path, records: Iterable[Record], tables: Sequence[TextTable], pictures: Sequence[str]) -> None:
    """Write records.jsonl and report.md, and print the tables."""
    (out / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    shown = [f"![{picture}]({picture})\n" for picture in pictures]
    (out / "report.md").write_text("\n".join([*shown, *(table.markdown() for table in tables)]))
    for table in tables:
        console.print(table.on_screen(console.width))
    console.print(f"Wrote {', '.join(str(out / name) for name in ('records.jsonl', 'report.md', *pictures))}")

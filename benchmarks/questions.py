"""A driver of several questions: each is measured, told and drawn in the same way.

With ``--out FOLDER`` the records of a question are appended to QUESTION.jsonl as they come, and QUESTION.md with
QUESTION.png tell of all that is in the file: several runs make one report.  ``report QUESTION FOLDER`` writes it anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.reporting import Record, show
from otspec.data import Source, check_positions, open_source
from otspec.reporting.console import console, progress_bar
from otspec.reporting.pictures import Picture
from otspec.reporting.tables import TextTable, markdown_report

Out = Annotated[
    Path | None,
    typer.Option(help="Folder for the records, which are added to those there, and a report of all of them."),
]
Data = Annotated[str, typer.Option(help="Profiles or files of positions, a list.")]
Positions = Annotated[int, typer.Option(min=1, help="Positions of each.")]


@dataclass(frozen=True)
class Question:
    """What a driver measures: how it is asked, and how its records are told and drawn."""

    name: str
    """Of its files."""
    commands: Sequence[Callable[..., None]]
    """What measures it, each a command of its own name; most have one."""
    key: tuple[str, ...]
    """Fields that say what a record is of: where two agree in them, the later one counts."""
    tables: Callable[[Sequence[Record]], Sequence[TextTable]]
    picture: Callable[[Sequence[Record]], Picture] | None = None

    def of(self, record: Record) -> Hashable:
        """What a record is of."""
        return tuple(json.dumps(record.get(name)) for name in self.key)

    def told(self, records: Sequence[Record]) -> list[TextTable]:
        """The tables that have something to tell."""
        return [table for table in self.tables(records) if table.rows]


def answer(question: Question, measured: Iterable[Record], out: Path | None) -> None:
    """Measure, and keep the records as they come; then print the tables, and write the report if there is a folder."""
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    records = []
    with progress_bar() as bar, nullcontext() if out is None else _log(out, question).open("a") as log:
        for record in bar.track(measured, description=question.name):
            records.append(record)
            if log is not None:
                log.write(json.dumps(record) + "\n")
                log.flush()
    show(*question.told(records))
    if out is not None:
        write_report(question, out)


def write_report(question: Question, out: Path) -> list[TextTable]:
    """Write what a folder has on a question, with its picture; return the tables."""
    lines = _log(out, question).read_text().splitlines()
    records = list({question.of(record): record for record in map(json.loads, lines)}.values())
    tables, pictures = question.told(records), []
    if question.picture is not None:
        pictures = [f"{question.name}.png"]
        question.picture(records).save(out / pictures[0])
    (out / f"{question.name}.md").write_text(markdown_report(tables, pictures, [], question.name))
    written = (f"{question.name}.jsonl", f"{question.name}.md", *pictures)
    console.print(f"Wrote {', '.join(str(out / name) for name in written)}")
    return tables


def _log(out: Path, question: Question) -> Path:
    return out / f"{question.name}.jsonl"


def driver(about: str | None, questions: Sequence[Question]) -> typer.Typer:
    """The command line: the commands of all questions, and one that reports on what was measured before."""
    first = (about or "").partition("\n")[0]
    app = typer.Typer(add_completion=False, help=first, rich_markup_mode=None, no_args_is_help=True)
    for question in questions:
        for command in question.commands:
            app.command()(command)
    known = {question.name: question for question in questions}

    @app.command()
    def report(
        name: Annotated[str, typer.Argument(metavar="QUESTION", help="The name of its files.")],
        out: Annotated[Path, typer.Argument(help="A folder that --out named.")],
    ) -> None:
        """Report on the records in a folder, without measuring."""
        among("question", [name], known)
        if not _log(out, known[name]).exists():
            raise typer.BadParameter(f"there is no {_log(out, known[name])}; name a folder that --out named")
        show(*write_report(known[name], out))

    return app


def among(what: str, names: Sequence[str], known: Iterable[str]) -> None:
    """Refuse a name that is not known.

    Raises
    ------
    typer.BadParameter
        With those that are.
    """
    there = list(known)
    for name in names:
        if name not in there:
            raise typer.BadParameter(f"there is no {what} {name!r}; known: {', '.join(there)}")


def over(data: str, positions: int, measure: Callable[[Source, int], Iterable[Record]]) -> Iterator[Record]:
    """What is measured on the first positions of every source of a list; all are opened before any is measured."""
    found = [open_source(name) for name in data.split(",")]
    for source in found:
        check_positions(source, positions)
    return (record for source in found for record in measure(source, positions))

"""What the two benchmarks share: a folder that is resumed, and reported on however the run ends."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otspec.reporting.console import console, progress_bar
from otspec.reporting.tables import TextTable, markdown_report

if TYPE_CHECKING:
    from otspec.bench.records import RecordFolder


ShardOption = Annotated[
    str | None,
    typer.Option("--shard", help="Measure only the i-th of n parts, as in 3/8; otspec merge joins their folders."),
]


def check_budget(budget: float, whose: str) -> None:
    """Insist on some time, and an end of it.

    Raises
    ------
    typer.BadParameter
        If there is none.
    """
    if not 0 < budget < math.inf:
        raise typer.BadParameter(f"{budget} s; grant each {whose} some time", param_hint="--budget")


@contextmanager
def resumed(folder: RecordFolder, what: str, total: int, report: Callable[[], None]) -> Iterator[Callable[[int], None]]:
    """Show the progress of a run, to be called with the steps done, and close its folder and report on it at the end.

    Raises
    ------
    typer.Exit
        With status 130, after an interrupt.
    """
    try:
        with progress_bar() as bar:
            task = bar.add_task(what, total=total)
            yield lambda steps: bar.advance(task, steps)
    except KeyboardInterrupt:
        console.print(f"interrupted; the same command goes on from {len(folder.records)} records", style="yellow")
        raise typer.Exit(130) from None
    finally:
        folder.close()
        report()


def asked(shard: str | None = None) -> dict[str, Any]:
    """The command line and the date, for run.json and the report, and the shard if it is of one."""
    about = {"command": shlex.join(["otspec", *sys.argv[1:]]), "date": datetime.now(UTC).isoformat(timespec="seconds")}
    return about if shard is None else {**about, "shard": shard}


SHOWN_RUNS = 10
"""Commands of a much resumed folder that its report shows, the last ones."""


def about(folder: RecordFolder, machine: str) -> list[str]:
    """How the measurements of a folder came about: machine, versions, and the commands with their dates."""
    identity = folder.identity
    packages = {"Python": identity["python"], **identity["versions"]}
    versions = ", ".join(f"{name} {version}" for name, version in packages.items())
    runs = [f"- {run['date']}: `{run['command']}`" for run in folder.runs[-SHOWN_RUNS:]]
    left_out = len(folder.runs) - len(runs)
    before = f" (and {left_out} before, in run.json)" if left_out else ""
    return [
        f"Measured on: {machine}. {versions}; sources {identity['code']}.",
        f"Measured by{before}:\n\n" + "\n".join(runs),
    ]


def tell(
    folder: RecordFolder,
    title: str,
    paragraphs: Sequence[str],
    pictures: Sequence[str],
    tables: Sequence[TextTable | None],
    shown: Sequence[TextTable | None],
) -> None:
    """Write tables to report.md, with pictures that are there already, and put some on the screen."""
    text = markdown_report(tables, pictures, paragraphs, title)
    (folder.path / "report.md").write_text(text, encoding="utf-8")
    for table in shown:
        if table is not None:
            console.print(table.on_screen(console.width))


def conclude(folder: RecordFolder, files: Sequence[str], left_out: Sequence[str], wrong: Sequence[str] = ()) -> None:
    """Say what could not be measured, what was there already, and what was written.

    Raises
    ------
    typer.Exit
        With status 1, if something went wrong; each thing is a line on stderr.
    """
    if left_out:
        console.print(f"Not installed, so left out: {', '.join(left_out)}. See `otspec solvers`.")
    if not folder.added:
        console.print(f"Nothing was left to measure: {folder.path} held it all, {len(folder.records)} records.")
    console.print(f"Wrote {folder.path}/{', '.join(files)}", soft_wrap=True)
    if wrong:
        more = [f"and {len(wrong) - SHOWN_WRONG} more, in results.jsonl"] if len(wrong) > SHOWN_WRONG else []
        for line in [*wrong[:SHOWN_WRONG], *more]:
            typer.secho(f"error: {line}", fg="red", err=True)
        raise typer.Exit(1)


SHOWN_WRONG = 10
"""Lines about what went wrong that a screen gets."""

"""What the benchmarks share: a folder that is resumed, reported on however the run ends, and compared with others."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otspec.reporting.console import console, progress_bar
from otspec.writing import write_text

if TYPE_CHECKING:
    from otspec.bench.records import RecordFolder
    from otspec.bench.report import Run
    from otspec.bench.stored import StoredRun

SHOWN_WRONG = 10
"""Lines about what went wrong that a screen gets."""
SHOWN = 5
"""Cells of one run alone that are named on the screen."""
COMPARISON, FIGURES = "comparison.md", "comparison.json"
"""What a comparison writes into the folder."""

Against = Annotated[
    list[Path] | None,
    typer.Option(
        "--against",
        help="A folder of results to compare those of --out with; repeat it for parts of one run. With --out and "
        "nothing else, nothing is measured.",
    ),
]


def check_budget(budget: float, whose: str) -> None:
    """Check that a budget is positive and finite."""
    if not 0 < budget < math.inf:
        raise typer.BadParameter(f"{budget} s; grant each {whose} some time", param_hint="--budget")


def check_reference(reference: str | None, rules: Sequence[str]) -> None:
    """Check that the rule to compare with is among those of the run."""
    if reference is not None and reference not in rules:
        raise typer.BadParameter(
            f"{reference!r} is not among the rules of this run, {', '.join(rules)}; name it in --solver too",
            param_hint="--reference",
        )


@contextmanager
def resumed(folder: RecordFolder, what: str, total: int, beside: Sequence[Run] = ()) -> Iterator[Callable[[int], None]]:
    """Show the progress of a run, to be called with the steps done, and close its folder and report on it at the end.

    The report includes what the folders of `beside` hold.
    """
    if folder.records:
        console.print(
            f"{folder.path} holds {len(folder.records)} records of this run, which stand; what it lacks is added.",
            soft_wrap=True,
        )
    try:
        with progress_bar() as bar:
            task = bar.add_task(what, total=total)
            yield lambda steps: bar.advance(task, steps)
    except KeyboardInterrupt:
        console.print(f"interrupted; the same command goes on from {len(folder.records)} records", style="yellow")
        raise typer.Exit(130) from None
    finally:
        folder.close()
        report(folder, beside)


def run_record() -> dict[str, Any]:
    """The command line and the date, for run.json and the report."""
    return {"command": shlex.join(["otspec", *sys.argv[1:]]), "date": datetime.now(UTC).isoformat(timespec="seconds")}


def only_compared(context: typer.Context, out: Path, against: list[Path] | None) -> bool:
    """Compare a finished run, if nothing else is requested; return whether that was so."""
    if against:
        read_runs(against)  # before the work, not after it
    options = {name for name in context.params if str(context.get_parameter_source(name)).endswith("COMMANDLINE")}
    if not against or not options <= {"against", "out"} or not (out / "run.json").is_file():
        return False
    compare(against, out)
    return True


def conclude(
    folder: RecordFolder, left_out: Sequence[str], against: Sequence[Path] | None = None, wrong: Sequence[str] = ()
) -> None:
    """Print what could not be measured, what was there already, what was written, and how it compares with others."""
    if left_out:
        console.print(f"Not installed, so left out: {', '.join(left_out)}. See `otspec solvers`.")
    if not folder.added:
        console.print(f"Nothing was left to measure: {folder.path} held it all, {len(folder.records)} records.")
    console.print(f"Wrote {folder.path}/{', '.join(written(folder))}", soft_wrap=True)
    if against:
        compare(against, folder.path)
    if wrong:
        more = [f"and {len(wrong) - SHOWN_WRONG} more, in results.jsonl"] if len(wrong) > SHOWN_WRONG else []
        for line in [*wrong[:SHOWN_WRONG], *more]:
            typer.secho(f"error: {line}", fg="red", err=True)
        raise typer.Exit(1)


def report(folder: Run, beside: Sequence[Run] = ()) -> None:
    """Write tables, pictures and the page of all that a folder holds, and put the main tables on the screen.

    They include what the folders of `beside` hold.
    """
    from otspec.bench.report import kind_of, write
    from otspec.bench.stored import joined

    if beside:
        folder = joined([folder, *beside])
    kind = kind_of(folder.identity["benchmark"])
    found = kind.report(folder)
    if found is None:
        return
    write(found, folder, kind.pictures(folder.identity))
    for table in found.screen:
        console.print(table.on_screen(console.width))


def written(folder: Run) -> list[str]:
    """The files of a report that are there: tables, the page with them, pictures, and the records."""
    from otspec.bench.records import LOG, TABLE
    from otspec.bench.report import PAGE, TEXT, kind_of

    pictures = kind_of(folder.identity["benchmark"]).pictures(folder.identity)
    return [name for name in (TEXT, PAGE, *pictures, LOG, TABLE) if (folder.path / name).is_file()]


def read_runs(paths: Sequence[Path]) -> StoredRun:
    """The runs of several folders as one."""
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
    write_text(folder / COMPARISON, table.markdown() + (f"\n{lines}" if lines else ""))
    write_text(folder / FIGURES, json.dumps(found.record(), indent=2) + "\n")
    console.print(f"Wrote {folder}/{COMPARISON}, {FIGURES}", soft_wrap=True)

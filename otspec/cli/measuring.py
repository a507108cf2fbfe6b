"""What the benchmarks share: a folder that is resumed, and reported on however the run ends."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otspec.cli.comparing import compare, read_runs
from otspec.cli.reports import report, written
from otspec.reporting.console import console, progress_bar

if TYPE_CHECKING:
    from otspec.bench.records import RecordFolder
    from otspec.bench.report import Run


Against = Annotated[
    list[Path] | None,
    typer.Option(
        "--against",
        help="A folder of results to compare those of --out with; repeat it for parts of one run. With --out and "
        "nothing else, nothing is measured.",
    ),
]


def check_budget(budget: float, whose: str) -> None:
    """Check that a budget is more than no time, and has an end.

    Raises
    ------
    typer.BadParameter
        If there is none.
    """
    if not 0 < budget < math.inf:
        raise typer.BadParameter(f"{budget} s; grant each {whose} some time", param_hint="--budget")


@contextmanager
def resumed(folder: RecordFolder, what: str, total: int, beside: Sequence[Run] = ()) -> Iterator[Callable[[int], None]]:
    """Show the progress of a run, to be called with the steps done, and close its folder and report on it at the end.

    The report has what was measured into other folders, too, those of `beside`.

    Raises
    ------
    typer.Exit
        With status 130, after an interrupt.
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


def asked() -> dict[str, Any]:
    """The command line and the date, for run.json and the report."""
    return {"command": shlex.join(["otspec", *sys.argv[1:]]), "date": datetime.now(UTC).isoformat(timespec="seconds")}


def only_compared(context: typer.Context, out: Path, against: list[Path] | None) -> bool:
    """Compare a run that is there, if nothing else is asked for; return whether it was so.

    Raises
    ------
    DataError
        If a folder holds no run.
    """
    if against:
        read_runs(against)  # before the work, not after it
    given = {name for name in context.params if str(context.get_parameter_source(name)).endswith("COMMANDLINE")}
    if not against or not given <= {"against", "out"} or not (out / "run.json").is_file():
        return False
    compare(against, out)
    return True


def conclude(
    folder: RecordFolder, left_out: Sequence[str], against: Sequence[Path] | None = None, wrong: Sequence[str] = ()
) -> None:
    """Say what could not be measured, what was there already, what was written, and how it compares with other runs.

    Raises
    ------
    typer.Exit
        With status 1, if something went wrong; each thing is a line on stderr.
    """
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


SHOWN_WRONG = 10
"""Lines about what went wrong that a screen gets."""

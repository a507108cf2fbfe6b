"""What the benchmarks share: a folder that is resumed, and reported on however the run ends."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otspec.cli.reports import report, written
from otspec.reporting.console import console, progress_bar

if TYPE_CHECKING:
    from otspec.bench.records import RecordFolder


ShardOption = Annotated[
    str | None,
    typer.Option(
        "--shard", help="Which of n parts of the run to measure, as in 3/8; `otspec merge` joins their folders."
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
def resumed(folder: RecordFolder, what: str, total: int) -> Iterator[Callable[[int], None]]:
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
        report(folder)


def asked(shard: str | None = None) -> dict[str, Any]:
    """The command line and the date, for run.json and the report, and the shard if it is of one."""
    about = {"command": shlex.join(["otspec", *sys.argv[1:]]), "date": datetime.now(UTC).isoformat(timespec="seconds")}
    return about if shard is None else {**about, "shard": shard}


def conclude(folder: RecordFolder, left_out: Sequence[str], wrong: Sequence[str] = ()) -> None:
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
    console.print(f"Wrote {folder.path}/{', '.join(written(folder))}", soft_wrap=True)
    if wrong:
        more = [f"and {len(wrong) - SHOWN_WRONG} more, in results.jsonl"] if len(wrong) > SHOWN_WRONG else []
        for line in [*wrong[:SHOWN_WRONG], *more]:
            typer.secho(f"error: {line}", fg="red", err=True)
        raise typer.Exit(1)


SHOWN_WRONG = 10
"""Lines about what went wrong that a screen gets."""

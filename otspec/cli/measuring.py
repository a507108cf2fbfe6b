"""What the two benchmarks share: a folder that is resumed, and reported on however the run ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from otspec.reporting.console import console, progress_bar
from otspec.reporting.tables import TextTable, markdown_report

if TYPE_CHECKING:
    from otspec.bench.records import RecordFolder


def check_budget(budget: float, whose: str) -> None:
    """Insist on some time.

    Raises
    ------
    typer.BadParameter
        If there is none.
    """
    if not budget > 0:
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


def tell(
    out: Path, title: str, machine: str, tables: Sequence[TextTable | None], shown: Sequence[TextTable | None]
) -> None:
    """Write tables to report.md, with the picture that is there already, and put some on the screen."""
    (out / "report.md").write_text(markdown_report(tables, ["report.png"], machine, title))
    for table in shown:
        if table is not None:
            console.print(table.on_screen(console.width))


def conclude(out: Path, files: Sequence[str], left_out: Sequence[str]) -> None:
    """Say what could not be measured, and what was written."""
    if left_out:
        console.print(f"Not installed, so left out: {', '.join(left_out)}. See `otspec solvers`.")
    console.print(f"Wrote {out}/{', '.join(files)}")

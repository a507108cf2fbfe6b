"""`otspec bench`: solvers at various (k, n)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from otspec.bench.cells import every_solver, grid
from otspec.bench.driver import Benchmark, run
from otspec.bench.plot import plot
from otspec.bench.records import RunFolder
from otspec.bench.report import failures_table, overview_table, published_table, results_table
from otspec.bench.summary import summarise
from otspec.cli.bench_decode import bench_decode
from otspec.data import NAMES, open_source
from otspec.extras import require
from otspec.reporting.console import console, numbers, progress_bar
from otspec.reporting.machine import processor
from otspec.reporting.tables import markdown_report

app = typer.Typer(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
app.command("decode")(bench_decode)


@app.callback()
def bench(
    context: typer.Context,
    k: Annotated[str, typer.Option("--k", help="Draft tokens kept, a list; V is the whole vocabulary.")] = "10,100",
    n: Annotated[str, typer.Option("--n", help="Drafts per position, a list.")] = "2,3",
    solver: Annotated[str, typer.Option(help="A list as for `otspec solve`, or all.")] = "all",
    positions: Annotated[int, typer.Option(help="Positions per cell.", min=1)] = 50,
    data: Annotated[str, typer.Option(help=f"{', '.join(NAMES)}, or a file of positions.")] = "llama3",
    out: Annotated[Path, typer.Option(help="Folder for results; the same command again resumes it.")] = Path("report"),
    jobs: Annotated[int, typer.Option(help="Worker processes, one core each.", min=1)] = 1,
    budget: Annotated[float, typer.Option(help="Seconds of solving per cell; what exceeds is a lower bound.")] = 20.0,
    seed: Annotated[int, typer.Option(help="Of synthetic positions and of the drafts.")] = 0,
) -> None:
    """Measure solvers at every (k, n): time, acceptance, certificate and deviation, beside the paper's figures.

    Leaves results.jsonl and results.parquet (a record per position), report.md and report.png in the folder.  An
    interrupted run goes on where it stopped.  `otspec bench decode` measures them in decoding.
    """
    if context.invoked_subcommand is not None:
        _check_nothing_given(context)
        return
    for module in ("pyarrow", "matplotlib"):
        require(module)  # before the work, not after it
    if not budget > 0:
        raise typer.BadParameter(f"{budget} s; grant each cell some time", param_hint="--budget")
    left_out: list[str] = []
    spellings = [name.strip() for name in solver.split(",")]
    if spellings == ["all"]:
        spellings, left_out = every_solver()
    cells = grid(numbers("--k", k, {"V": 0}), numbers("--n", n), spellings)
    benchmark = Benchmark(cells, open_source(data, seed), positions, seed, budget, jobs)
    folder = RunFolder(out, benchmark.identity)
    try:
        with progress_bar() as bar:
            task = bar.add_task("measuring", total=len(cells) * positions)
            run(benchmark, folder, lambda steps: bar.advance(task, steps))
    except KeyboardInterrupt:
        console.print(f"interrupted; the same command goes on from {len(folder.records)} records", style="yellow")
        raise typer.Exit(130) from None
    finally:
        folder.close()
        _report(benchmark, folder)
    if left_out:
        console.print(f"Not installed, so left out: {', '.join(left_out)}. See `otspec solvers`.")
    console.print(f"Wrote {out}/report.md, report.png, results.jsonl, results.parquet")


def _check_nothing_given(context: typer.Context) -> None:
    """Refuse options between the two words of another command: they would be read and forgotten."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(
                f"write it after {context.invoked_subcommand}, if that has such an option", param_hint=f"--{name}"
            )


def _report(benchmark: Benchmark, folder: RunFolder) -> None:
    """Tables and picture of all that the folder holds, this run's cells and earlier ones."""
    summaries = [summarise(cell, folder.of(cell)) for cell in folder.cells]
    if not summaries:
        return
    data = benchmark.source.name
    plot(summaries, data, folder.path / "report.png")
    overview = overview_table(summaries, data)
    details = (results_table(summaries, data), failures_table(summaries), published_table(summaries, data))
    machine = f"{processor()}, {benchmark.jobs} worker(s)"
    title = "Multi-draft optimal transport: solvers at various (k, n)"
    (folder.path / "report.md").write_text(markdown_report((overview, *details), ["report.png"], machine, title))
    for table in (*details, overview):  # the end of a long output is what a screen shows
        if table is not None:
            console.print(table.on_screen(console.width))

"""`otspec bench`: solvers at various (k, n)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from otspec.cli.bench_decode import bench_decode
from otspec.cli.measuring import check_budget, conclude, resumed, tell
from otspec.cli.names import PROFILES
from otspec.extras import require
from otspec.reporting.console import numbers
from otspec.reporting.machine import processor

if TYPE_CHECKING:
    from otspec.bench import Benchmark
    from otspec.bench.records import RunFolder

app = typer.Typer(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
app.command("decode")(bench_decode)


@app.callback()
def bench(
    context: typer.Context,
    k: Annotated[str, typer.Option("--k", help="Draft tokens kept, a list; V is the whole vocabulary.")] = "10,100",
    n: Annotated[str, typer.Option("--n", help="Drafts per position, a list.")] = "2,3",
    solver: Annotated[str, typer.Option(help="A list as for `otspec solve`, or all.")] = "all",
    positions: Annotated[int, typer.Option(help="Positions per cell.", min=1)] = 50,
    data: Annotated[str, typer.Option(help=f"{', '.join(PROFILES)}, or a file of positions.")] = "llama3",
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
    check_budget(budget, "cell")
    from otspec.bench import Benchmark, grid, run
    from otspec.bench.cells import every_solver
    from otspec.bench.records import RunFolder
    from otspec.data import open_source

    left_out: list[str] = []
    spellings = [name.strip() for name in solver.split(",")]
    if spellings == ["all"]:
        spellings, left_out = every_solver()
    cells = grid(numbers("--k", k, {"V": 0}), numbers("--n", n), spellings)
    benchmark = Benchmark(cells, open_source(data, seed), positions, seed, budget, jobs)
    folder = RunFolder(out, benchmark.identity)
    with resumed(folder, "measuring", len(cells) * positions, lambda: _report(benchmark, folder)) as progress:
        run(benchmark, folder, progress)
    conclude(out, ("report.md", "report.png", "results.jsonl", "results.parquet"), left_out)


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
    from otspec.bench.plot import plot
    from otspec.bench.report import failures_table, overview_table, published_table, results_table
    from otspec.bench.summary import summarise

    summaries = [summarise(cell, folder.of(cell)) for cell in folder.cells]
    if not summaries:
        return
    data = benchmark.source.name
    plot(summaries, data, folder.path / "report.png")
    overview = overview_table(summaries, data)
    details = (results_table(summaries, data), failures_table(summaries), published_table(summaries, data))
    machine = f"{processor()}, {benchmark.jobs} worker(s)"
    title = "Multi-draft optimal transport: solvers at various (k, n)"
    shown = (*details, overview)  # the end of a long output is what a screen shows
    tell(folder.path, title, machine, (overview, *details), shown)

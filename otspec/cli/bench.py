"""`otspec bench`: solvers at various (k, n)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from otspec.cli.bench_decode import bench_decode
from otspec.cli.bench_paths import bench_paths
from otspec.cli.groups import with_option_groups
from otspec.cli.run_folder import Against, check_budget, conclude, only_compared, resumed, run_record
from otspec.cli.sources import ArrayOptions, by_name
from otspec.extras import require_extra
from otspec.reporting.console import console, numbers
from otspec.settings import Count, Mass, Range, Seed, Temperature

if TYPE_CHECKING:
    from otspec.data import Source

app = typer.Typer(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
app.command("decode")(bench_decode)
app.command("paths")(bench_paths)


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What `otspec bench` takes."""

    k: str = "10,100"
    """How many of the likeliest draft tokens to keep, a list; V keeps all."""
    n: str = "2,3"
    """How many drafts to draw at each position, a list."""
    solver: str = "all"
    """The solvers, a list as `otspec solve` takes it; all stands for every one that is installed."""
    positions: Count = 50
    """How many positions to measure at every (k, n)."""
    data: str = "llama3"
    """Where positions come from, a list of {PROFILES} and of files of positions."""
    arrays: ArrayOptions
    scheme: str = "iid"
    """The draft law: {SINGLE_SCHEMES}."""
    temperature: Temperature = 1.0
    """The temperature of both models, one to a folder of results."""
    top_p: Mass | None = None
    """Keep the likeliest draft tokens that have this mass."""
    out: Path = Path("report")
    """The folder for results; the same command again resumes it."""
    jobs: Annotated[int, Range(1, 1024, "pass 1 to 1024", whole=True)] = 1
    """How many worker processes measure, each on one core."""
    budget: float = 20.0
    """Seconds of solving for each cell; the time of a position that exceeds them is a lower bound. A larger budget
    resumes the cells that ran out of a smaller one."""
    seed: Seed = 0
    """The seed of synthetic positions and of the drafts."""
    against: Against = None
    remeasure: str = ""
    """Measure these solvers anew, a list or all, although the folder holds records of them."""


@app.callback()
@with_option_groups
def bench(context: typer.Context, request: BenchOptions) -> None:
    """Measure solvers at every (k, n): time, acceptance, certificate and deviation, beside the paper's figures.

    The command writes results.jsonl and results.parquet (a record per position), report.md with pictures and
    report.html, a page of the same, into the folder.  An interrupted run goes on where it stopped; a solver of yours
    that was edited is measured anew.  With --against the run is compared with another on what both measured: ratios of
    time and acceptance, in comparison.md and comparison.json, too.  `otspec bench decode` measures solvers in decoding,
    `otspec bench paths` on recorded trees.

    The exit status is 1 if a solver solved nothing or crashed, or if a position is no problem; stderr says which and
    why.
    """
    if context.invoked_subcommand is not None:
        _check_alone(context)
        return
    require_extra("bench", "report")  # before the work, not after it
    if only_compared(context, request.out, request.against):
        return
    check_budget(request.budget, "cell")
    from otspec.bench import Benchmark, grid, run
    from otspec.bench.records import RecordFolder
    from otspec.bench.solvers.cells import Sampling, cell_of
    from otspec.bench.solvers.summary import went_wrong
    from otspec.bench.spellings import every_solver, spelt_out
    from otspec.data import open_source

    sampling = Sampling(request.scheme, request.temperature, request.top_p)
    ks, ns = numbers("--k", request.k, {"V": 0}), numbers("--n", request.n)
    probes = [sampling.probe(count) for count in ns]
    spellings, left_out = spelt_out([name.strip() for name in request.solver.split(",")], lambda: every_solver(probes))
    sources: dict[str, Source] = by_name(
        request.data, lambda name: {name: open_source(name, request.seed, **request.arrays.all)}
    )
    cells = grid(ks, ns, spellings, list(sources))
    again = _again(request.remeasure, spellings)
    benchmark = Benchmark(cells, sources, request.positions, request.seed, request.budget, request.jobs, sampling)
    folder = RecordFolder(request.out, benchmark.identity)
    if stale := benchmark.forget_stale(folder):
        console.print(f"{stale} records were measured with other code of their solvers: measured anew.", style="yellow")
    measured = set(cells)
    folder.forget(lambda record: record["solver"] in again and cell_of(record) in measured)
    names = {"data": list(sources), "k": ks, "n": ns, "solver": list(dict.fromkeys(spellings))}
    folder.begin(run_record() | {"positions": request.positions, "cells": names})
    with resumed(folder, "measuring", benchmark.count) as progress:
        run(benchmark, folder, progress)
    conclude(folder, left_out, request.against, went_wrong(benchmark.cells, folder.records))


def _again(remeasure: str, spellings: list[str]) -> list[str]:
    wanted = [name for word in remeasure.split(",") if (name := word.strip())]
    if wanted == ["all"]:
        return spellings
    for name in wanted:
        if name not in spellings:
            raise typer.BadParameter(
                f"{name!r} is not among the solvers of this run, {', '.join(spellings)}; name it in --solver too",
                param_hint="--remeasure",
            )
    return wanted


def _check_alone(context: typer.Context) -> None:
    """Refuse options between the two words of another command: they would be read and ignored."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(
                f"write it after {context.invoked_subcommand}, if that has such an option", param_hint=f"--{name}"
            )

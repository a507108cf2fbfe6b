"""`otspec bench`: solvers at various (k, n)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from otspec.cli import options
from otspec.cli.arrays import DraftKey, Kind, TargetKey
from otspec.cli.bench_decode import bench_decode
from otspec.cli.bench_paths import bench_paths
from otspec.cli.measuring import Against, asked, check_budget, conclude, only_compared, resumed
from otspec.cli.names import PROFILES, SCHEMES
from otspec.cli.sources import by_name
from otspec.errors import ProblemError
from otspec.extras import require, require_extra
from otspec.reporting.console import console, numbers

if TYPE_CHECKING:
    from otspec.bench import Benchmark
    from otspec.bench.records import RecordFolder
    from otspec.data import Source

app = typer.Typer(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
app.command("decode")(bench_decode)
app.command("paths")(bench_paths)


@app.callback()
def bench(
    context: typer.Context,
    k: Annotated[
        str, typer.Option("--k", help="How many of the likeliest draft tokens to keep, a list; V keeps all.")
    ] = "10,100",
    n: Annotated[str, typer.Option("--n", help="How many drafts to draw at each position, a list.")] = "2,3",
    solver: Annotated[str, typer.Option(help="The solvers, a list as `otspec solve` takes it, or all.")] = "all",
    positions: Annotated[int, typer.Option(help="How many positions to measure at every (k, n).", min=1)] = 50,
    data: Annotated[
        str, typer.Option(help=f"Where positions come from, a list of {', '.join(PROFILES)} and of files of positions.")
    ] = "llama3",
    target_key: TargetKey = None,
    draft_key: DraftKey = None,
    kind: Kind = None,
    scheme: Annotated[
        str, typer.Option(help=f"The draft law: {', '.join(name for name in SCHEMES if name != 'independent')}.")
    ] = "iid",
    temperature: Annotated[float, options.temperature(help="The temperature of both models.")] = 1.0,
    top_p: Annotated[float | None, options.mass(help="Keep the likeliest draft tokens that have this mass.")] = None,
    out: Annotated[Path, typer.Option(help="The folder for results; the same command again resumes it.")] = Path(
        "report"
    ),
    jobs: Annotated[
        int, typer.Option(help="How many worker processes measure, each on one core.", min=1, max=1024)
    ] = 1,
    backend: Annotated[
        str,
        typer.Option(help="What measures: local processes, or the workers of dask or ray, which take whole cells."),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            help="The address of a Dask scheduler or of a Ray cluster.", show_default="a cluster of --jobs workers here"
        ),
    ] = None,
    budget: Annotated[
        float,
        typer.Option(
            help="Seconds of solving for each cell; the time of a position that exceeds them is a lower bound. "
            "A larger budget resumes the cells that ran out of a smaller one."
        ),
    ] = 20.0,
    seed: Annotated[int, options.seed(help="The seed of synthetic positions and of the drafts.")] = 0,
    against: Against = None,
    remeasure: Annotated[
        str, typer.Option(help="Measure these solvers anew, a list or all, although the folder holds records of them.")
    ] = "",
) -> None:
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
        _check_nothing_given(context)
        return
    if only_compared(context, out, against):
        return
    require_extra("bench", "report")  # before the work, not after it
    check_budget(budget, "cell")
    from otspec.bench import Benchmark, grid, run
    from otspec.bench.records import RecordFolder
    from otspec.bench.solvers.cells import Sampling, cell_of
    from otspec.bench.solvers.summary import went_wrong
    from otspec.bench.spellings import every_solver
    from otspec.data import open_source

    measure = run if (backend, address) == ("local", None) else _elsewhere(backend, address)
    left_out: list[str] = []
    sampling = Sampling(scheme, temperature, top_p)
    ks, ns = numbers("--k", k, {"V": 0}), numbers("--n", n)
    probes = [sampling.probe(count) for count in ns]
    spellings = [name.strip() for name in solver.split(",")]
    if spellings == ["all"]:
        spellings, left_out = every_solver(probes)
    sources: dict[str, Source] = by_name(
        data, lambda name: {name: open_source(name, seed, target_key=target_key, draft_key=draft_key, kind=kind)}
    )
    cells = grid(ks, ns, spellings, list(sources))
    again = _again(remeasure, spellings)
    benchmark = Benchmark(cells, sources, positions, seed, budget, jobs, sampling)
    folder = RecordFolder(out, benchmark.identity)
    if stale := benchmark.forget_stale(folder):
        console.print(f"{stale} records were measured with other code of their solvers: measured anew.", style="yellow")
    measured = set(cells)
    folder.forget(lambda record: record["solver"] in again and cell_of(record) in measured)
    names = {"data": list(sources), "k": ks, "n": ns, "solver": list(dict.fromkeys(spellings))}
    folder.begin(asked() | {"positions": positions, "cells": names})
    with resumed(folder, "measuring", benchmark.count) as progress:
        measure(benchmark, folder, progress)
    conclude(folder, left_out, against, went_wrong(benchmark.cells, folder.records))


def _elsewhere(backend: str, address: str | None) -> Callable[[Benchmark, RecordFolder, Callable[[int], None]], None]:
    """What measures on other workers; refused before any work."""
    from otspec.bench.solvers.backends import BACKENDS, run_on

    if backend not in BACKENDS:
        if backend == "local":
            raise ProblemError("local processes have no address; leave --address out, or pass --backend dask or ray")
        raise ProblemError(f"no backend {backend!r}; known: local, {', '.join(BACKENDS)}")
    for package in BACKENDS[backend]:
        require(package)
    return lambda benchmark, folder, progress: run_on(backend, benchmark, folder, progress, address)


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


def _check_nothing_given(context: typer.Context) -> None:
    """Refuse options between the two words of another command: they would be read and forgotten."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(
                f"write it after {context.invoked_subcommand}, if that has such an option", param_hint=f"--{name}"
            )

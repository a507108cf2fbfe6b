"""`otspec solve`: the positions of a file, one solver."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table as RichTable

from otspec.cli.groups import with_option_groups
from otspec.cli.options import ARGUMENT, OutFile
from otspec.cli.sources import ArrayOptions
from otspec.reporting.console import console, progress_bar
from otspec.settings import Count, Mass, Seed, Temperature
from otspec.writing import write_text

if TYPE_CHECKING:
    from otspec.results import Result

COLUMNS = ("position", "solver", "status", "acceptance", "bound", "gap", "deviation", "ms")
Value = float | int | str | None


@dataclass(frozen=True, kw_only=True)
class SolveOptions:
    """What `otspec solve` takes."""

    file: Annotated[str, ARGUMENT]
    """A file of positions, or {PROFILES}."""
    n: Count = 2
    """How many drafts each position has."""
    top_k: Count | None = None
    """Keep the k likeliest draft tokens."""
    top_p: Mass | None = None
    """Keep the likeliest draft tokens that have this mass."""
    temperature: Temperature = 1.0
    """The temperature of both models."""
    draft_temperature: Temperature | None = None
    """The temperature of the draft model, where it differs."""
    solver: str = "interval"
    """A solver that `otspec solvers` lists, with settings as name:key=value; a list is tried in turn."""
    positions: int | None = None
    """How many positions to solve, from the first on; a profile gives 10."""
    seed: Seed = 0
    """The seed of a synthetic profile's positions."""
    arrays: ArrayOptions
    out: OutFile | None = None
    """A file to which a JSON line per position is written as well."""


@with_option_groups
def solve(request: SolveOptions) -> None:
    """Solve each position of FILE and show acceptance, certificate and time.

    FILE (.npz, .npy, .safetensors, .pt) holds target_logits and draft_logits, or target_probs and draft_probs, or
    arrays that --target-key and --draft-key name, each of shape (positions, V).
    Exit status 1: not every position was solved, by an exact solver to a certified optimum.
    """
    import numpy as np

    from otspec.catalogue import get
    from otspec.data import NAMES, check_positions, open_source
    from otspec.solving import solve as solve_by
    from otspec.warming import warm_up

    chain = [get(name.strip()) for name in request.solver.split(",")]
    source = open_source(request.file, request.seed, **request.arrays.all)
    some = 10 if request.file in NAMES else len(source)
    count = check_positions(source, some if request.positions is None else request.positions)
    for link in chain:
        warm_up(link)
    size = f"top-{request.top_k}" if request.top_k else f"V = {source.vocab}"
    table = RichTable(title=f"{request.solver} on {source.name}, n = {request.n}, {size}")
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in ("solver", "status") else "right")
    lines = []
    sampling = {name: getattr(request, name) for name in ("temperature", "top_k", "top_p", "draft_temperature")}
    with progress_bar() as bar:
        for index in bar.track(range(count), description="solving"):
            problem = source.position(index).problem(request.n, **sampling)
            line = _line(index, solve_by(problem.compact().problem, chain, strict=False))
            lines.append(line)
            table.add_row(*(_show(line[name]) for name in COLUMNS))
    console.print(table)
    solved = [line for line in lines if line["solved"]]
    if solved:
        mean = {name: np.mean([line[name] for line in solved]) for name in ("acceptance", "ms")}
        console.print(f"{len(solved)}/{count} solved; mean acceptance {mean['acceptance']:.4f}, {mean['ms']:.3g} ms")
    for message in dict.fromkeys(str(line["message"]) for line in lines if not line["solved"]):
        console.print(f"not solved: {message}", style="yellow")
    if request.out is not None:
        write_text(request.out, "".join(json.dumps(line) + "\n" for line in lines))
    if len(solved) < count:
        raise typer.Exit(1)


def _line(index: int, result: Result) -> dict[str, Value]:
    plan = result.plan
    return {
        "position": index,
        "solver": result.stats.solver,
        "solved": result.success,
        "status": result.status.name,
        "acceptance": None if plan is None else plan.acceptance,
        "bound": None if plan is None else plan.bound,
        "gap": None if plan is None else plan.gap,
        "deviation": None if plan is None else plan.deviation,
        "ms": sum(one.stats.wall_s for one in (*result.tried, result)) * 1e3,
        "message": result.message,
    }


def _show(value: Value) -> str:
    if isinstance(value, float):
        return f"{value:.1e}" if 0 < abs(value) < 1e-4 else f"{value:.6g}"
    return "-" if value is None else str(value)

"""`otspec solve`: the positions of a file, one solver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table as RichTable

from otspec.cli import options
from otspec.cli.arrays import DraftKey, Kind, TargetKey
from otspec.cli.names import PROFILES
from otspec.reporting.console import console, progress_bar
from otspec.writing import write_text

if TYPE_CHECKING:
    from otspec.results import Result

COLUMNS = ("position", "solver", "status", "acceptance", "bound", "gap", "deviation", "ms")
Value = float | int | str | None


def solve(
    file: Annotated[str, typer.Argument(help=f"A file of positions, or {', '.join(PROFILES)}.")],
    n: Annotated[int, options.count("--n", help="How many drafts each position has.")] = 2,
    top_k: Annotated[int | None, options.count(help="Keep the k likeliest draft tokens.")] = None,
    top_p: Annotated[float | None, options.mass(help="Keep the likeliest draft tokens that have this mass.")] = None,
    temperature: Annotated[float, options.temperature(help="The temperature of both models.")] = 1.0,
    draft_temperature: Annotated[
        float | None, options.temperature(help="The temperature of the draft model, where it differs.")
    ] = None,
    solver: Annotated[
        str,
        typer.Option(
            help="A solver that `otspec solvers` lists, with settings as name:key=value; a list is tried in turn."
        ),
    ] = "interval",
    positions: Annotated[
        int | None, typer.Option(help="How many positions to solve, from the first on; a profile gives 10.")
    ] = None,
    seed: Annotated[int, options.seed(help="The seed of a synthetic profile's positions.")] = 0,
    target_key: TargetKey = None,
    draft_key: DraftKey = None,
    kind: Kind = None,
    out: Annotated[
        Path | None, options.out_file(help="A file to which a JSON line per position is written as well.")
    ] = None,
) -> None:
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

    chain = [get(name.strip()) for name in solver.split(",")]
    source = open_source(file, seed, target_key=target_key, draft_key=draft_key, kind=kind)
    if positions is None:
        positions = 10 if file in NAMES else len(source)
    count = check_positions(source, positions)
    for link in chain:
        warm_up(link)
    table = RichTable(title=f"{solver} on {source.name}, n = {n}, {f'top-{top_k}' if top_k else f'V = {source.vocab}'}")
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in ("solver", "status") else "right")
    lines = []
    with progress_bar() as bar:
        for index in bar.track(range(count), description="solving"):
            problem = source.position(index).problem(
                n, temperature=temperature, top_k=top_k, top_p=top_p, draft_temperature=draft_temperature
            )
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
    if out is not None:
        write_text(out, "".join(json.dumps(line) + "\n" for line in lines))
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

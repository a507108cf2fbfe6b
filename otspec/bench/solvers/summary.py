"""What the records of each cell come to: times, what plans accept, and why positions were not solved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl
from polars import col

from otspec.bench.frame import frame_of, standard_error, whole_mean
from otspec.bench.records import Record
from otspec.bench.schema import SCHEMAS
from otspec.bench.solvers.cells import Cell, cell_of

Row = dict[str, Any]
"""Figures of a cell, by the names of the columns of `summarise`."""
CELL = ("data", "k", "n", "solver")
SETTING = CELL[:3]
SUBOPTIMAL = 1e-6
"""A mean acceptance so far below alpha* is a rule's, not rounding's or a tolerance's."""
CRASHES = ("INVALID", "RAISED", "DIED")
"""Statuses of positions that were not even refused: what is wrong is in the data or in a solver's code."""


def summarise(records: Sequence[Record], requests: Iterable[Mapping[str, Any]] = ()) -> list[Row]:
    """A row for every cell with a record, small settings first, solvers by name.

    Parameters
    ----------
    records : sequence of Record
    requests : iterable of mappings
        The runs that made them, as run.json has them: of each, how many positions of which cells.

    Returns
    -------
    list of mappings
        Beside data, k, n and solver: ``wanted``, ``positions``, ``solved``, numbers of positions that were requested,
        measured and answered; ``mean``, ``low``, ``median``, ``high``, the mean and quartiles of their milliseconds,
        those that the budget cut short among them (``lower_bound``), and ``given_up``, the mean of those not solved;
        ``plans``, ``acceptance``, ``optimum``, over positions with a plan, with their ``acceptance_error`` and
        ``shortfall_error``, and the largest ``gap`` and ``deviation``; ``best``, mean alpha* over every position
        that any solver measured at the setting; ``refused``, whether none was solved, for another reason than time;
        ``reason``, the commonest one; and how it is called: ``setting``, ``kind`` and ``label``.
    """
    frame = frame_of(records, SCHEMAS["solvers"])
    known = frame.drop_nulls("optimum").group_by(*SETTING, "position").agg(alpha=col("optimum").last())
    best = known.group_by(SETTING).agg(best=col("alpha").mean())
    frame = frame.join(known, on=[*SETTING, "position"], how="left").sort("position")
    cells = frame.group_by(CELL).agg(**_times(), **_plans(), reasons=_reasons().filter(~col("solved")))
    cells = cells.join(best, on=SETTING, how="left").with_columns(
        col("reasons").map_elements(_commonest, return_dtype=pl.String, skip_nulls=False).alias("reason"),
        _wanted(cells, list(requests)),
    )
    order = [col("data"), col("k").replace(0, 2**62), col("n"), col("solver")]
    return _described(cells.sort(order)).to_dicts()


def _times() -> dict[str, pl.Expr]:
    ms, cut = 1e3 * col("wall_s"), col("status") == "BUDGET"
    timed = ms.filter(col("solved") | cut)
    quartiles = {"low": 0.25, "median": 0.5, "high": 0.75}
    return {
        "positions": pl.len().cast(pl.Int64),
        "solved": col("solved").sum(),
        "lower_bound": cut.any(),
        "mean": timed.mean(),
        **{name: timed.quantile(share, "linear") for name, share in quartiles.items()},
        "given_up": ms.filter(~col("solved") & ~col("status").is_in(["BUDGET", "INVALID"])).mean(),
    }


def _plans() -> dict[str, pl.Expr]:
    accepted = col("acceptance").drop_nulls()
    alpha = col("alpha").filter(col("acceptance").is_not_null())
    return {
        "plans": accepted.len(),
        "acceptance": accepted.mean(),
        "acceptance_error": standard_error(accepted),
        "optimum": whole_mean(alpha),
        "shortfall_error": pl.when(alpha.null_count() == 0).then(standard_error(alpha - accepted)),
        "gap": col("gap").max(),
        "deviation": col("deviation").max(),
        "lossy": (col("status") == "LOSSY").any(),
    }


def _reasons() -> pl.Expr:
    return pl.format("{}: {}", "status", "message")


def _commonest(reasons: Iterable[str]) -> str:
    """The commonest, of several the last by letter; nothing where there is none."""
    counts = Counter(reasons)
    return max(counts, key=lambda reason: (counts[reason], reason), default="")


def _wanted(cells: pl.DataFrame, requests: Sequence[Mapping[str, Any]]) -> pl.Series:
    """Positions requested of each cell: not less than there are."""
    grids = list({str(run): (run["positions"], run["cells"]) for run in requests if "cells" in run}.values())
    return pl.Series(
        "wanted",
        [
            max([row["positions"], *(count for count, grid in grids if all(row[name] in grid[name] for name in CELL))])
            for row in cells.to_dicts()
        ],
        dtype=pl.Int64,
    )


def _described(cells: pl.DataFrame) -> pl.DataFrame:
    """With what a cell is called: its `kind` marks that its acceptance is not the optimum."""
    shortfall = col("optimum") - col("acceptance") > SUBOPTIMAL
    found = cells.with_columns(
        refused=(col("solved") == 0) & ~col("lower_bound"),
        setting=pl.format("({}, {})", col("k").cast(pl.String).replace("0", "V"), "n"),
        kind=pl.when("lossy").then(pl.lit("lossy")).when(shortfall).then(pl.lit("suboptimal")).otherwise(pl.lit("")),
    )
    marked = pl.format("{} ({})", "solver", "kind")
    return found.with_columns(label=pl.when(col("kind") == "").then("solver").otherwise(marked))


def over_data(rows: Sequence[Row], sources: int) -> list[Row]:
    """A row for every cell that was measured on so many sources: the mean over them, each counted once.

    A time or an acceptance that one of them has none of has no mean.
    """
    cells = pl.DataFrame(rows).with_columns(mean=pl.when(~col("refused")).then("mean"))
    found = cells.group_by("k", "n", "solver", maintain_order=True).agg(
        col("wanted", "positions", "solved").sum(),
        col("lower_bound", "lossy").any(),
        *(whole_mean(col(name)).alias(name) for name in ("mean", "acceptance", "optimum")),
        sources=pl.len(),
    )
    return _described(found.filter(col("sources") == sources)).to_dicts()


def went_wrong(cells: Sequence[Cell], records: Sequence[Record]) -> list[str]:
    """What a user must know of a run: positions that were no problems, crashes, and solvers that solved nothing."""
    wanted = set(cells)
    mine = [record for record in records if cell_of(record) in wanted]
    crashed = dict.fromkeys(_crash(record) for record in mine if record["status"] in CRASHES)
    by_solver = {solver: [one for one in mine if one["solver"] == solver] for solver in (cell.solver for cell in cells)}
    idle = [
        _nothing_solved(solver, held)
        for solver, held in by_solver.items()
        if not any(record["solved"] or record["status"] == "BUDGET" for record in held)
    ]
    return [*crashed, *idle]


def _crash(record: Record) -> str:
    if record["status"] == "INVALID":
        return str(record["message"])
    of_data = f" of {record['data']}" if record["data"] else ""
    setting = cell_of(record).setting
    return f"{record['solver']} at {setting}, position {record['position']}{of_data}: {record['message']}"


def _nothing_solved(solver: str, records: Sequence[Record]) -> str:
    reason = next((record["message"] for record in records if record["status"] not in CRASHES), None)
    return f"{solver} solved nothing" + ("" if reason is None else f"; {reason}")

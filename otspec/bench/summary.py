"""What a cell's records come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from otspec.bench.cells import Cell
from otspec.bench.records import Record, RunFolder, cell_of
from otspec.reporting.means import standard_error

SUBOPTIMAL = 1e-6
"""A mean acceptance so far below alpha* is a rule's, not rounding's or a tolerance's."""
CRASHES = ("INVALID", "RAISED", "DIED")
"""Statuses of positions that were not even refused: what is wrong is in the data or in a solver's code."""


@dataclass(frozen=True)
class Summary:
    """Figures of one cell.  Times are in milliseconds per token."""

    cell: Cell
    wanted: int
    """Positions asked for."""
    positions: int
    """Positions with a record: an interrupt or the time budget may have left out the others."""
    solved: int
    """Positions whose drafted tuple the solver answered as it is meant to: an exact one by a certified optimal plan."""
    lower_bound: bool
    """Whether the time budget cut a position short: the mean is then at least what is shown."""
    mean_ms: float | None
    """Over the positions that were solved or cut short; None if there are none."""
    quartiles_ms: tuple[float, float, float]
    """25 %, median and 75 % of the same."""
    failed_mean_ms: float | None
    """Mean time after which a position was given up."""
    planned: int
    """Positions with a plan, over which acceptance, its error and `optimum` are taken."""
    acceptance: float | None
    """Mean acceptance."""
    acceptance_error: float
    """Standard error of `acceptance` across positions; NaN for fewer than two."""
    optimum: float | None
    """Mean alpha* of the same positions; None unless it is known of all."""
    shortfall_error: float
    """Standard error of `optimum` minus `acceptance`, position by position; NaN where that cannot be told."""
    gap: float | None
    """Largest gap."""
    deviation: float | None
    """Largest L1 deviation of the output law."""
    lossy: bool
    """Whether a plan's output law was off p by more than the solver's tolerance."""
    reason: str
    """The commonest reason for a position that was not solved, or nothing."""

    @property
    def refused(self) -> bool:
        """Whether no position was solved, for another reason than time: there is then no solve time to speak of."""
        return self.solved == 0 and not self.lower_bound

    @property
    def kind(self) -> str:
        """What its acceptance is not: `lossy` or `suboptimal`; nothing where it is the optimum, or unknown."""
        if self.lossy:
            return "lossy"
        if self.acceptance is None or self.optimum is None:
            return ""
        return "suboptimal" if self.optimum - self.acceptance > SUBOPTIMAL else ""


Optima = Mapping[tuple[str, int, int, int], float]
"""alpha* by data, k, n and position."""


def optima(records: Sequence[Record]) -> Optima:
    """alpha* of every position that some solver's record knows it of."""
    known = [record for record in records if record.get("optimum") is not None]
    return {(one["data"], one["k"], one["n"], one["position"]): one["optimum"] for one in known}


def summaries_of(folder: RunFolder) -> list[Summary]:
    """A summary for every cell with a record."""
    known, asks = optima(folder.records), folder.asks()
    return [
        summarise(cell, mine, max((one.positions for one in asks if one.covers(cell)), default=0), known)
        for cell, mine in folder.by_cell().items()
    ]


def summarise(cell: Cell, records: Sequence[Record], wanted: int = 0, known: Optima | None = None) -> Summary:
    """The figures of a cell with at least one record.

    Parameters
    ----------
    cell : Cell
    records : sequence of Record
        Of the cell.
    wanted : int
        Positions asked for; not less than there are records.
    known : mapping, optional
        alpha* where records of other solvers know it; by default that of these records.
    """
    best = optima(records) if known is None else known
    timed = np.array([r["wall_s"] for r in records if r["solved"] or r["status"] == "BUDGET"]) * 1e3
    failed = [r["wall_s"] for r in records if not r["solved"] and r["status"] not in ("BUDGET", "INVALID")]
    planned = [record for record in records if record.get("acceptance") is not None]
    accepted = np.array([record["acceptance"] for record in planned])
    places = [(cell.data, cell.k, cell.n, record["position"]) for record in planned]
    beside = [best[place] for place in places if place in best]
    paired = bool(planned) and len(beside) == len(planned)
    reasons = [f"{record['status']}: {record['message']}" for record in records if not record["solved"]]
    quartiles = np.percentile(timed, [25, 50, 75]).tolist() if timed.size else [float("nan")] * 3
    return Summary(
        cell=cell,
        wanted=max(wanted, len(records)),
        positions=len(records),
        solved=sum(record["solved"] for record in records),
        lower_bound=any(record["status"] == "BUDGET" for record in records),
        mean_ms=float(timed.mean()) if timed.size else None,
        quartiles_ms=(quartiles[0], quartiles[1], quartiles[2]),
        failed_mean_ms=1e3 * float(np.mean(failed)) if failed else None,
        planned=len(planned),
        acceptance=float(accepted.mean()) if planned else None,
        acceptance_error=standard_error(accepted),
        optimum=float(np.mean(beside)) if paired else None,
        shortfall_error=standard_error(np.array(beside) - accepted) if paired else float("nan"),
        gap=_max(planned, "gap"),
        deviation=_max(planned, "deviation"),
        lossy=any(record["status"] == "LOSSY" for record in records),
        reason=max(set(reasons), key=lambda reason: (reasons.count(reason), reason)) if reasons else "",
    )


def went_wrong(cells: Sequence[Cell], records: Sequence[Record]) -> list[str]:
    """What a user must hear of a run: positions that were no problems, crashes, and solvers that solved nothing."""
    asked = set(cells)
    mine = [record for record in records if cell_of(record) in asked]
    told = dict.fromkeys(
        f"{record['message']}"
        if record["status"] == "INVALID"
        else f"{record['solver']} at ({record['k'] or 'V'}, {record['n']}), position {record['position']}"
        f"{' of ' + record['data'] if record['data'] else ''}: {record['message']}"
        for record in mine
        if record["status"] in CRASHES
    )
    lines = list(told)
    for solver in dict.fromkeys(cell.solver for cell in cells):
        of_solver = [record for record in mine if record["solver"] == solver]
        if any(record["solved"] or record["status"] == "BUDGET" for record in of_solver):
            continue
        reasons = dict.fromkeys(record["message"] for record in of_solver if record["status"] not in CRASHES)
        lines.append(f"{solver} solved nothing{''.join(f'; {reason}' for reason in list(reasons)[:1])}")
    return lines


def _max(records: Sequence[Record], name: str) -> float | None:
    return max((record[name] for record in records), default=None)

"""What the records of each cell come to: times, what plans accept, and why positions were not solved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from otspec.bench.records import Record
from otspec.bench.report import Run
from otspec.bench.solvers.cells import Cell, cell_of
from otspec.reporting.means import grouped, standard_error

SUBOPTIMAL = 1e-6
"""A mean acceptance so far below alpha* is a rule's, not rounding's or a tolerance's."""
CRASHES = ("INVALID", "RAISED", "DIED")
"""Statuses of positions that were not even refused: what is wrong is in the data or in a solver's code."""

Optima = Mapping[tuple[str, int, int, int], float]
"""alpha* by data, k, n and position."""


class Times(NamedTuple):
    """Milliseconds per token, over the positions that were solved or cut short."""

    lower_bound: bool
    """Whether the time budget cut a position short: the mean is then at least what is shown."""
    mean: float | None
    """None if there are no such positions."""
    quartiles: tuple[float, float, float]
    """25 %, median and 75 %; NaN if there are none."""
    failed_mean: float | None
    """Mean time after which a position was given up; None if none was."""


class Plans(NamedTuple):
    """Figures of the positions with a plan."""

    positions: int
    acceptance: float | None
    """Mean acceptance; None without plans."""
    acceptance_error: float
    """Standard error of `acceptance` across positions; NaN for fewer than two."""
    optimum: float | None
    """Mean alpha* of the same positions; None unless it is known of all."""
    shortfall_error: float
    """Standard error of `optimum` minus `acceptance`, position by position; NaN where it is not known."""
    gap: float | None
    """Largest gap."""
    deviation: float | None
    """Largest L1 deviation of the output law."""


@dataclass(frozen=True)
class Summary:
    """Figures of one cell."""

    cell: Cell
    wanted: int
    """Positions asked for."""
    positions: int
    """Positions with a record: an interrupt or the time budget may have left out the others."""
    solved: int
    """Positions whose drafted tuple the solver answered as it is meant to: an exact one by a certified optimal plan."""
    times: Times
    plans: Plans
    lossy: bool
    """Whether a plan's output law was off p by more than the solver's tolerance."""
    reason: str
    """The commonest reason for a position that was not solved, or nothing."""

    @property
    def refused(self) -> bool:
        """Whether no position was solved, for another reason than time: there is then no solve time to speak of."""
        return self.solved == 0 and not self.times.lower_bound

    @property
    def kind(self) -> str:
        """What its acceptance is not: `lossy` or `suboptimal`; nothing where it is the optimum, or unknown."""
        if self.lossy:
            return "lossy"
        if self.plans.acceptance is None or self.plans.optimum is None:
            return ""
        return "suboptimal" if self.plans.optimum - self.plans.acceptance > SUBOPTIMAL else ""


class Request(NamedTuple):
    """Positions of a grid of cells that a run was asked for."""

    positions: int
    data: tuple[str, ...]
    k: tuple[int, ...]
    n: tuple[int, ...]
    solver: tuple[str, ...]

    @classmethod
    def of(cls, run: Mapping[str, Any]) -> Request:
        """What a run's entry in run.json says."""
        return cls(run["positions"], *(tuple(run["cells"][name]) for name in cls._fields[1:]))

    def covers(self, cell: Cell) -> bool:
        """Whether a cell is of the grid."""
        return all(getattr(cell, name) in getattr(self, name) for name in self._fields[1:])


def optima(records: Sequence[Record]) -> Optima:
    """alpha* of every position that some solver's record knows it of."""
    known = [record for record in records if record.get("optimum") is not None]
    return {(one["data"], one["k"], one["n"], one["position"]): one["optimum"] for one in known}


def summaries_of(run: Run) -> list[Summary]:
    """A summary for every cell with a record; small settings first, solvers by name."""
    known, asked = optima(run.records), list(dict.fromkeys(map(Request.of, run.runs)))
    held = grouped(run.records, cell_of)
    return [
        summarise(
            cell,
            sorted(held[cell], key=lambda record: record["position"]),
            max((one.positions for one in asked if one.covers(cell)), default=0),
            known,
        )
        for cell in sorted(held, key=lambda cell: (cell.data, cell.size, cell.solver))
    ]


def over_data(summaries: Sequence[Summary], sources: int) -> list[Summary]:
    """A summary for every cell that was measured on so many sources: the mean over them, each counted once.

    A time or an acceptance that one of them has none of has no mean; quartiles and the error of a shortfall have none.
    """
    held = grouped(summaries, lambda one: replace(one.cell, data=""))
    return [_over_data(cell, each) for cell, each in held.items() if len(each) == sources]


def _over_data(cell: Cell, each: Sequence[Summary]) -> Summary:
    times, plans = [one.times for one in each], [one.plans for one in each]
    errors = np.array([one.acceptance_error for one in plans])
    return Summary(
        cell=cell,
        wanted=sum(one.wanted for one in each),
        positions=sum(one.positions for one in each),
        solved=sum(one.solved for one in each),
        times=Times(
            lower_bound=any(one.lower_bound for one in times),
            mean=_mean(None if one.refused else one.times.mean for one in each),
            quartiles=(float("nan"), float("nan"), float("nan")),
            failed_mean=None,
        ),
        plans=Plans(
            positions=sum(one.positions for one in plans),
            acceptance=_mean(one.acceptance for one in plans),
            acceptance_error=float(np.sqrt((errors**2).sum()) / len(each)),
            optimum=_mean(one.optimum for one in plans),
            shortfall_error=float("nan"),
            gap=_largest(one.gap for one in plans),
            deviation=_largest(one.deviation for one in plans),
        ),
        lossy=any(one.lossy for one in each),
        reason="",
    )


def _mean(values: Iterable[float | None]) -> float | None:
    """None if one of them is."""
    found = list(values)
    return None if None in found else float(np.mean(np.array(found, dtype=float)))


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
    return Summary(
        cell=cell,
        wanted=max(wanted, len(records)),
        positions=len(records),
        solved=sum(record["solved"] for record in records),
        times=_times(records),
        plans=_plans(cell, records, optima(records) if known is None else known),
        lossy=any(record["status"] == "LOSSY" for record in records),
        reason=_commonest(f"{one['status']}: {one['message']}" for one in records if not one["solved"]),
    )


def _times(records: Sequence[Record]) -> Times:
    timed = np.array([r["wall_s"] for r in records if r["solved"] or r["status"] == "BUDGET"]) * 1e3
    failed = [r["wall_s"] for r in records if not r["solved"] and r["status"] not in ("BUDGET", "INVALID")]
    low, median, high = np.percentile(timed, [25, 50, 75]).tolist() if timed.size else [float("nan")] * 3
    return Times(
        lower_bound=any(record["status"] == "BUDGET" for record in records),
        mean=float(timed.mean()) if timed.size else None,
        quartiles=(low, median, high),
        failed_mean=1e3 * float(np.mean(failed)) if failed else None,
    )


def _plans(cell: Cell, records: Sequence[Record], known: Optima) -> Plans:
    planned = [record for record in records if record.get("acceptance") is not None]
    accepted = np.array([record["acceptance"] for record in planned])
    places = [(cell.data, cell.k, cell.n, record["position"]) for record in planned]
    best = [known[place] for place in places if place in known]
    paired = bool(planned) and len(best) == len(planned)
    return Plans(
        positions=len(planned),
        acceptance=float(accepted.mean()) if planned else None,
        acceptance_error=standard_error(accepted),
        optimum=float(np.mean(best)) if paired else None,
        shortfall_error=standard_error(np.array(best) - accepted) if paired else float("nan"),
        gap=_largest(record.get("gap") for record in planned),
        deviation=_largest(record.get("deviation") for record in planned),
    )


def _largest(values: Iterable[float | None]) -> float | None:
    """Of those that there are."""
    return max((value for value in values if value is not None), default=None)


def _commonest(reasons: Iterable[str]) -> str:
    """The commonest, of several the last by letter; nothing where there is none."""
    counts = Counter(reasons)
    return max(counts, key=lambda reason: (counts[reason], reason), default="")


def went_wrong(cells: Sequence[Cell], records: Sequence[Record]) -> list[str]:
    """What a user must hear of a run: positions that were no problems, crashes, and solvers that solved nothing."""
    asked = set(cells)
    mine = [record for record in records if cell_of(record) in asked]
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

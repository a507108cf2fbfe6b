"""What a cell's records come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from otspec.bench.cells import Cell
from otspec.bench.records import Record


@dataclass(frozen=True)
class Summary:
    """Figures of one cell.  Times are in milliseconds per token, over all positions unless they say otherwise."""

    cell: Cell
    positions: int
    """Positions with a record."""
    solved: int
    """Positions whose drafted tuple the solver answered as it is meant to: an exact one by a certified optimal plan."""
    lower_bound: bool
    """Whether the time budget cut a position short: the mean is then at least what is shown."""
    mean_ms: float
    quartiles_ms: tuple[float, float, float]
    """25 %, median and 75 %."""
    solved_mean_ms: float | None
    """Mean over the solved positions alone."""
    optimum: float | None
    """Mean alpha* of the positions that were not cut short."""
    acceptance: float | None
    """Mean acceptance of the positions with a plan."""
    gap: float | None
    """Largest gap."""
    deviation: float | None
    """Largest L1 deviation of the output law."""
    reason: str
    """The commonest reason for a position that was not solved, or nothing."""

    @property
    def refused(self) -> bool:
        """Whether no position was solved, for another reason than time: there is then no solve time to speak of."""
        return self.solved == 0 and not self.lower_bound


def summarise(cell: Cell, records: Sequence[Record]) -> Summary:
    """The figures of a cell with at least one record."""
    times = np.array([record["wall_s"] for record in records]) * 1e3
    solved = np.array([record["solved"] for record in records])
    reasons = [f"{record['status']}: {record['message']}" for record in records if not record["solved"]]
    return Summary(
        cell=cell,
        positions=len(records),
        solved=int(solved.sum()),
        lower_bound=any(record["status"] == "BUDGET" for record in records),
        mean_ms=float(times.mean()),
        quartiles_ms=tuple(np.percentile(times, [25, 50, 75]).tolist()),
        solved_mean_ms=float(times[solved].mean()) if solved.any() else None,
        optimum=_mean(records, "optimum"),
        acceptance=_mean(records, "acceptance"),
        gap=_max(records, "gap"),
        deviation=_max(records, "deviation"),
        reason=max(set(reasons), key=reasons.count) if reasons else "",
    )


def _known(records: Sequence[Record], name: str) -> list[float]:
    return [record[name] for record in records if record.get(name) is not None]


def _mean(records: Sequence[Record], name: str) -> float | None:
    values = _known(records, name)
    return float(np.mean(values)) if values else None


def _max(records: Sequence[Record], name: str) -> float | None:
    values = _known(records, name)
    return max(values) if values else None

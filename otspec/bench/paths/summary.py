"""What the benchmark of recorded trees comes to: means over trees, and differences on the same trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from otspec.bench.intervals import NONE, Estimate, difference, quotient
from otspec.bench.paths.cells import ACCEPTED, TIME, PathsCell, paths_cell_of, place_of
from otspec.bench.ratios import Held, error, estimate, paired
from otspec.bench.records import Record
from otspec.reporting.means import grouped

REFERENCE = "interval"
"""The rule that others are compared with: optimal token by token."""


@dataclass(frozen=True)
class PathsSummary:
    """Figures of one cell over its trees, with 95 % intervals over prompts (`otspec.bench.intervals`)."""

    cell: PathsCell
    trees: int
    prompts: int
    lossless: bool
    accepted: Estimate
    """Mean number of accepted tokens."""
    error: float
    """Its standard error."""
    gain: Estimate
    """What it accepts more than the reference, on the trees that both have."""
    reach: list[float]
    """P(at least 1, ..., L tokens are accepted)."""
    median_ms: float
    """Of one verification."""
    time: Estimate
    """Time of verifications over the reference's, on the trees that both have."""
    message: str
    """Why it stopped, if its solver failed."""


def summarise(records: Sequence[Record], reference: str = REFERENCE) -> list[PathsSummary]:
    """A summary for every cell with a record: file by file, the rule that accepts most first."""
    of = grouped(records, paths_cell_of)
    trees = {cell: {place_of(one): one for one in mine if not one["message"]} for cell, mine in of.items()}
    found = [_summary(cell, mine, trees, reference) for cell, mine in of.items()]
    files = list(dict.fromkeys(cell.data for cell in of))

    def place(one: PathsSummary) -> tuple[object, ...]:
        return files.index(one.cell.data), -np.nan_to_num(one.accepted.value)

    return sorted(found, key=place)


def _summary(
    cell: PathsCell, records: Sequence[Record], trees: Mapping[PathsCell, Held], reference: str
) -> PathsSummary:
    mine = trees[cell]
    theirs = trees.get(replace(cell, rule=reference), {})
    depths = [one["reach"] for one in mine.values() if one["reach"] is not None]
    times = [1e3 * one["wall_s"] for one in mine.values() if one["wall_s"] is not None]
    alone = cell.rule == reference
    failures = [one["message"] for one in records if one["message"]]
    return PathsSummary(
        cell=cell,
        trees=len(mine),
        prompts=len({prompt for prompt, _ in mine}),
        lossless=all(one["lossless"] for one in mine.values()),
        accepted=estimate(ACCEPTED, mine),
        error=error(ACCEPTED, mine),
        gain=NONE if alone else paired(difference, ACCEPTED, mine, theirs),
        reach=np.mean(depths, axis=0).tolist() if depths else [],
        median_ms=float(np.median(times)) if times else float("nan"),
        time=NONE if alone else paired(quotient, TIME, mine, theirs),
        message=failures[-1] if failures else "",
    )

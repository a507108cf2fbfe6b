"""What the benchmark of recorded trees comes to: means over trees, and differences on the same trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from otspec.bench.intervals import NONE, Estimate, by_prompt, difference, quotient, ratio, ratio_error
from otspec.bench.paths import BOUND, PathsCell, paths_cell_of
from otspec.bench.records import Record

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
    of_bound: Estimate
    """What it accepts over what no lossless rule exceeds, on the trees that both have."""
    reach: list[float]
    """P(at least 1, ..., L tokens are accepted); none of the bound."""
    median_ms: float
    """Of one verification; NaN of the bound."""
    message: str
    """Why it stopped, if its solver failed."""


def summarise(records: Iterable[Record], reference: str = REFERENCE) -> list[PathsSummary]:
    """A summary for every cell with a record: file by file, the rule that accepts most first, the bound before all."""
    held: dict[PathsCell, dict[int, Record]] = {}
    messages: dict[PathsCell, str] = {}
    for record in records:
        cell = paths_cell_of(record)
        mine = held.setdefault(cell, {})
        if record["message"]:
            messages[cell] = record["message"]
        else:
            mine[record["position"]] = record
    found = [
        _summary(cell, mine, held.get(replace(cell, rule=reference), {}), held.get(replace(cell, rule=BOUND), {}))
        for cell, mine in held.items()
    ]
    found = [replace(one, message=messages.get(one.cell, "")) for one in found]
    files = list(dict.fromkeys(cell.data for cell in held))
    return sorted(
        found, key=lambda one: (files.index(one.cell.data), one.cell.rule != BOUND, -np.nan_to_num(one.accepted.value))
    )


def _summary(
    cell: PathsCell, mine: Mapping[int, Record], theirs: Mapping[int, Record], bounds: Mapping[int, Record]
) -> PathsSummary:
    rows = list(mine.values())
    columns = by_prompt([(one["prompt"], (one["accepted"], 1.0)) for one in rows]) if rows else None
    depths = [one["reach"] for one in rows if one["reach"] is not None]
    times = [1e3 * one["wall_s"] for one in rows if one["wall_s"] is not None]
    return PathsSummary(
        cell=cell,
        trees=len(rows),
        prompts=len({one["prompt"] for one in rows}),
        lossless=all(one["lossless"] for one in rows),
        accepted=NONE if columns is None else ratio(*columns),
        error=float("nan") if columns is None else ratio_error(*columns),
        gain=NONE if mine is theirs or cell.rule == BOUND else _paired(difference, mine, theirs),
        of_bound=NONE if cell.rule == BOUND else _paired(quotient, mine, bounds),
        reach=np.mean(depths, axis=0).tolist() if depths else [],
        median_ms=float(np.median(times)) if times else float("nan"),
        message="",
    )


def _paired(estimate: Callable[..., Estimate], mine: Mapping[int, Record], theirs: Mapping[int, Record]) -> Estimate:
    """A comparison of two means over the trees that both have."""
    common = sorted(mine.keys() & theirs.keys())
    rows = [(mine[at]["prompt"], (mine[at]["accepted"], 1.0, theirs[at]["accepted"], 1.0)) for at in common]
    return estimate(*by_prompt(rows)) if rows else NONE

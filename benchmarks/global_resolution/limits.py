"""Table 2 of [thomas2025global]: the best acceptance within 10 and 100 ms per token, with `interval` added.

    python -m benchmarks.global_resolution.limits --results report/llama3 [--positions 100]

The folder is one that `otspec bench` wrote; docs/global_resolution.md has the commands.  Every solver may
choose its own (k, n) among those that were measured.  Where global resolution gives up, the best baseline at a setting
of its own steps in, and the mean time of both together counts, as in the paper.  (A decoder could not do that to the
letter: the drafts are drawn before a solver gives up.)
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.reporting import Record
from otspec.laws import BoolArray, FloatArray
from otspec.reporting.console import console
from otspec.reporting.published import ACCEPTANCE
from otspec.reporting.tables import TextTable

BASELINES = {"lp": "General LP", "max_flow": "Max-flow"}
LIMITS_MS = (10, 100)
RESOLUTION = {"global_resolution": "G.R. 1e-3", "global_resolution:tau=1e-4": "G.R. 1e-4"}


def read(results: Path) -> tuple[str, list[Record]]:
    """The name of the data that `otspec bench` measured into a folder, and a record per solver, k, n and position."""
    (data,) = json.loads((results / "run.json").read_text())["data"]
    lines = (results / "results.jsonl").read_text().splitlines()
    return data, [json.loads(line) for line in lines]


class Choice(NamedTuple):
    """A solver at a setting: what it accepts and takes, position by position."""

    name: str
    ms: FloatArray
    """Shape (positions,)."""
    acceptance: FloatArray
    """alpha* of the setting, shape (positions,)."""
    solved: BoolArray
    """Shape (positions,)."""

    @property
    def mean(self) -> float:
        """Mean acceptance."""
        return float(self.acceptance.mean())


def choices(records: Sequence[Record], solver: str, positions: int) -> list[Choice]:
    """The settings at which a solver got through all positions within its budget, small ones first."""
    found = []
    mine = [record for record in records if record["solver"] == solver and record["position"] < positions]
    for k, n in sorted({(r["k"], r["n"]) for r in mine}, key=lambda setting: (setting[0] or np.inf, setting[1])):
        cell = sorted((r for r in mine if (r["k"], r["n"]) == (k, n)), key=lambda record: record["position"])
        if len(cell) == positions and all(record.get("optimum") is not None for record in cell):
            ms, best, solved = ([record[key] for record in cell] for key in ("wall_s", "optimum", "solved"))
            found.append(Choice(f"({k or 'V'}, {n})", np.array(ms) * 1e3, np.array(best), np.array(solved)))
    return found


def best_within(found: list[Choice], limit_ms: float) -> Choice | None:
    """The choice of most acceptance among those that always succeed within the limit on average."""
    allowed = [choice for choice in found if choice.solved.all() and choice.ms.mean() <= limit_ms]
    return max(allowed, key=lambda choice: choice.mean, default=None)


def with_fallback(found: list[Choice], fallbacks: list[Choice]) -> list[Choice]:
    """Every choice completed by every fallback where it does not succeed."""
    completed = []
    for first, second in itertools.product(found, [f for f in fallbacks if f.solved.all()]):
        ms = first.ms + np.where(first.solved, 0.0, second.ms)
        acceptance = np.where(first.solved, first.acceptance, second.acceptance)
        name = f"{first.name}, else {second.name}"
        completed.append(Choice(name, ms, acceptance, np.ones_like(first.solved)))
    return completed


def table(records: Sequence[Record], data: str, positions: int) -> TextTable:
    """The paper's table, ours beside it."""
    baselines = {method: choices(records, solver, positions) for solver, method in BASELINES.items()}
    fallbacks = [choice for found in baselines.values() for choice in found]
    resolution = {
        method: with_fallback(choices(records, solver, positions), fallbacks) for solver, method in RESOLUTION.items()
    }
    all_choices = {**baselines, **resolution, "interval": choices(records, "interval", positions)}
    rows: list[tuple[str, ...]] = []
    for limit in LIMITS_MS:
        for method, found in all_choices.items():
            printed = ACCEPTANCE.get(data, {}).get(limit, {}).get(method)
            best = best_within(found, limit)
            ours = ("-", "-", "-") if best is None else (f"{best.mean:.2%}", best.name, f"{best.ms.mean():.2g}")
            rows.append((f"{limit}", method, "-" if printed is None else f"{printed:.2f}%", *ours))
    header = ("limit, ms", "method", "paper", "ours", "setting (k, n)", "mean ms")
    note = (
        f"Best mean acceptance over {positions} positions within the limit on the mean time per token. Max-flow and "
        "LP group tuples by token set, so more settings fit than in the paper."
    )
    return TextTable(f"Best acceptance within a time limit on {data}", header, rows, note)


def main() -> None:
    """Read the measurements, and print the table."""
    parser = argparse.ArgumentParser(description="Table 2: best acceptance within a time limit.")
    parser.add_argument("--results", type=Path, required=True, help="folder that `otspec bench` wrote")
    parser.add_argument("--positions", type=int, default=100, help="the first so many positions of every cell")
    request = parser.parse_args()
    data, records = read(request.results)
    shown = table(records, data, request.positions)
    (request.results / "limits.md").write_text(shown.markdown())
    console.print(shown.on_screen(console.width))
    console.print(f"Wrote {request.results}/limits.md")


if __name__ == "__main__":
    main()

"""Table 2 of [thomas2025global]: the best acceptance within 10 and 100 ms per token, with `interval` added.

    python -m benchmarks.global_resolution.limits [--data llama3|gemma2] [--positions 100] [--out report/limits_llama3]

Every solver may choose its own (k, n).  Where global resolution gives up, the best baseline at a setting of its own
steps in, and the mean time of both together counts, as in the paper.  (A decoder could not do that to the letter: the
drafts are drawn before a solver gives up.)
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from benchmarks.global_resolution.measured import RESOLUTION, measure
from otspec.bench import Cell
from otspec.bench.records import RunFolder
from otspec.bench.report import TextTable
from otspec.laws import BoolArray, FloatArray
from otspec.reporting.console import console

LIMITS_MS = (10.0, 100.0)
BASELINES = {"lp": "General LP", "max_flow": "Max-flow"}
BASELINE_SETTINGS = ((10, 2), (10, 3), (10, 4), (10, 5), (10, 10), (100, 2), (100, 3), (1000, 2))
RESOLUTION_SETTINGS = tuple(itertools.product((10, 100, 1000), (2, 3, 4, 5)))
INTERVAL_SETTINGS = tuple(itertools.product((10, 100, 1000, 10_000, 0), (2, 3, 4, 5, 10)))

PUBLISHED = {
    "llama3": {
        10.0: {"General LP": 0.8253, "Max-flow": 0.8394, "G.R. 1e-3": 0.8565, "G.R. 1e-4": 0.8510},
        100.0: {"General LP": 0.8394, "Max-flow": 0.8901, "G.R. 1e-3": 0.9004, "G.R. 1e-4": 0.8946},
    },
    "gemma2": {
        10.0: {"General LP": 0.7903, "Max-flow": 0.8069, "G.R. 1e-3": 0.8190, "G.R. 1e-4": 0.8135},
        100.0: {"General LP": 0.8069, "Max-flow": 0.8583, "G.R. 1e-3": 0.8660, "G.R. 1e-4": 0.8607},
    },
}
"""Table 2 of the paper, by profile, limit and method."""


class Choice(NamedTuple):
    """A solver at a setting: what it accepts and takes, position by position."""

    name: str
    ms: FloatArray
    acceptance: FloatArray
    """alpha* of the setting."""
    solved: BoolArray

    @property
    def mean(self) -> float:
        """Mean acceptance."""
        return float(self.acceptance.mean())


def choices(folder: RunFolder, solver: str, positions: int) -> list[Choice]:
    """The settings at which a solver got through all positions within its budget."""
    found = []
    for cell in folder.cells:
        records = folder.of(cell)[:positions]
        if cell.solver == solver and len(records) == positions and all(r.get("optimum") is not None for r in records):
            ms, best, solved = ([r[key] for r in records] for key in ("wall_s", "optimum", "solved"))
            found.append(Choice(cell.setting, np.array(ms) * 1e3, np.array(best), np.array(solved)))
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


def table(folder: RunFolder, data: str, positions: int) -> TextTable:
    """The paper's table, ours beside it."""
    baselines = {method: choices(folder, solver, positions) for solver, method in BASELINES.items()}
    fallbacks = [choice for found in baselines.values() for choice in found]
    resolution = {
        method: with_fallback(choices(folder, solver, positions), fallbacks)
        for solver, method in zip(RESOLUTION, ("G.R. 1e-3", "G.R. 1e-4"), strict=True)
    }
    all_choices = {**baselines, **resolution, "interval": choices(folder, "interval", positions)}
    rows: list[tuple[str, ...]] = []
    for limit in LIMITS_MS:
        for method, found in all_choices.items():
            printed = PUBLISHED.get(data, {}).get(limit, {}).get(method)
            best = best_within(found, limit)
            ours = ("-", "-", "-") if best is None else (f"{best.mean:.2%}", best.name, f"{best.ms.mean():.2g}")
            rows.append((f"{limit:g}", method, "-" if printed is None else f"{printed:.2%}", *ours))
    header = ("limit, ms", "method", "paper", "ours", "setting (k, n)", "mean ms")
    note = (
        f"Best mean acceptance over {positions} positions within the limit on the mean time per token. Max-flow and "
        "LP group tuples by token set, so more settings fit than in the paper."
    )
    return TextTable(f"Best acceptance within a time limit on {data}", header, rows, note)


def main() -> None:
    """Measure and print."""
    cells = [Cell(k, n, solver) for solver in BASELINES for k, n in BASELINE_SETTINGS]
    cells += [Cell(k, n, solver) for solver in RESOLUTION for k, n in RESOLUTION_SETTINGS]
    cells += [Cell(k, n, "interval") for k, n in INTERVAL_SETTINGS]
    benchmark, folder = measure("Table 2: best acceptance within a time limit.", cells, "report/limits")
    shown = table(folder, benchmark.source.name, benchmark.positions)
    (folder.path / "report.md").write_text(shown.markdown())
    console.print(shown.on_screen(console.width))
    console.print(f"Wrote {folder.path}/report.md, results.jsonl, results.parquet")


if __name__ == "__main__":
    main()

"""Cells measured by the benchmark driver into a folder that `times` and `limits` can share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from otspec.bench import Benchmark, Cell, run
from otspec.bench.records import RunFolder
from otspec.data import open_source
from otspec.reporting.console import progress_bar

RESOLUTION = ("global_resolution", "global_resolution:tau=1e-4")


class Run(NamedTuple):
    """A folder with all records of the cells that were asked for."""

    benchmark: Benchmark
    folder: RunFolder


def measure(description: str, cells: Sequence[Cell], out: str) -> Run:
    """Read the command line, measure what the folder does not hold yet, and return it closed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", default="llama3", help="llama3, gemma2 or a file of positions")
    parser.add_argument("--positions", type=int, default=100, help="positions per cell")
    parser.add_argument("--budget", type=float, default=30.0, help="seconds of solving per cell")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes, one core each")
    parser.add_argument("--out", type=Path, help=f"folder for the results, {out}_DATA by default")
    asked = parser.parse_args()
    source = open_source(asked.data)
    benchmark = Benchmark(list(cells), source, asked.positions, 0, asked.budget, asked.jobs)
    folder = RunFolder(asked.out or Path(f"{out}_{source.name}"), benchmark.identity)
    try:
        with progress_bar() as bar:
            task = bar.add_task("measuring", total=len(cells) * asked.positions)
            run(benchmark, folder, lambda steps: bar.advance(task, steps))
    finally:
        folder.close()
    return Run(benchmark, folder)

"""The (k, n) benchmark: every solver on the same positions, with a time budget per cell."""

from otspec.bench.cells import Cell, grid
from otspec.bench.driver import Benchmark, run

__all__ = ["Benchmark", "Cell", "grid", "run"]

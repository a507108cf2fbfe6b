"""The benchmarks: of solvers at every (k, n), of decoding, and of rules on recorded trees.

Each has a folder of its own, `solvers`, `decoding` or `paths`, with its cells, its driver, its summary, its tables and
its charts; its module `kind` declares them.  What is beside the folders is of all three: records on disk,
what they have to hold, comparing, and the writing of reports.
"""

from otspec.bench.solvers.cells import Cell, grid
from otspec.bench.solvers.driver import Benchmark, run

__all__ = ["Benchmark", "Cell", "grid", "run"]

"""The benchmarks: of solvers at every (k, n), of decoding, and of rules on recorded trees.

Each has a folder of its own, `solvers`, `decoding` or `paths`, and goes one way, a module for each step:

- ``cells``: what is measured, such as one solver at one (k, n);
- ``driver``: measures a cell and puts a record, a row of results.jsonl, into a folder (`otspec.bench.records`), which
  an interrupted run finds again and `otspec.bench.schema` checks; cells that take turns do so by `records.Turns`;
- ``summary``: the records as a frame (`otspec.bench.frame`), grouped by cell: means, and ratios of sums with their
  intervals (`otspec.bench.intervals`);
- ``tables``, and in ``kind`` the charts, which `otspec.reporting` draws with Altair, and the declaration of all that:
  for `otspec.bench.report`, which writes pictures and the page, and for `otspec.bench.comparison`, which joins the
  frames of two runs.
"""

from otspec.bench.solvers.cells import Cell, grid
from otspec.bench.solvers.driver import Benchmark, run

__all__ = ["Benchmark", "Cell", "grid", "run"]

"""What path rules accept: of K paths, on small models exactly, and beside the bound on causal rules.

    python -m benchmarks.path_rules paths [--cells mixed:1000:8:4,...] [--trees 200] [--walks 4] [--out FOLDER]
    python -m benchmarks.path_rules paths-growth | paths-small | causal-bound

Every tree comes from a model of its own, and all rules meet the same ones; the standard error of a gain is that of the
differences.
"""

from __future__ import annotations

from benchmarks.path_rules import causal_bound, paths, small
from benchmarks.questions import driver

QUESTIONS = (paths.PATHS, small.PATHS, causal_bound.CAUSAL_BOUND)
app = driver(__doc__, QUESTIONS)

if __name__ == "__main__":
    app()

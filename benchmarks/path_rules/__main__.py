"""What path rules accept: of paths and of trees of every shape, at their best, beside the bounds, in decoding.

    python -m benchmarks.path_rules paths [--cells mixed:1000:8:4,...] [--trees 200] [--walks 4] [--out FOLDER]
    python -m benchmarks.path_rules rivals | paths-small | rivals-small | paths-growth
    python -m benchmarks.path_rules shapes | two-levels | best-shapes | causal-bound | best-labels | decoded

Every tree comes from a model or a context of its own, and all rules meet the same ones; the standard error of a gain is
that of the differences.
"""

from __future__ import annotations

from benchmarks.path_rules import best_labels, best_shapes, causal_bound, decoded, paths, shapes, small, two_levels
from benchmarks.questions import driver

QUESTIONS = (
    paths.PATHS,
    paths.RIVALS,
    small.PATHS,
    small.RIVALS,
    shapes.SHAPES,
    two_levels.TWO_LEVELS,
    best_shapes.BEST_SHAPES,
    causal_bound.CAUSAL_BOUND,
    best_labels.BEST_LABELS,
    decoded.DECODED,
)
app = driver(__doc__, QUESTIONS)

if __name__ == "__main__":
    app()

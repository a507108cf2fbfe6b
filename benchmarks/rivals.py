"""The rules of 2026 beside nested labels: accepted lengths, and which of the rules are lossless at all.

    python -m benchmarks.rivals --tiny [--trees 12]     # small models, exactly, beside the bound on all lossless rules
    python -m benchmarks.rivals [--trees 60] [--cells mixed:50:8:4,...] [--out FILE]

A cell is laws:V:L:K as in `benchmarks.paths`.  Every tree comes from a model of its own, all rules meet the same trees,
and lengths are exact given the tree; gains of nested labels are tree by tree.  Rules of one path verify the first.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paths import TINY, Cell, accepted, show
from benchmarks.reporting import appended
from otspec.auditing.known_bugs import ReleasedHierarchical
from otspec.paths import (
    Block,
    GreedyMultiPath,
    Hierarchical,
    LayerVerification,
    Nested,
    PathVerifier,
    TokenWise,
    Traversal,
    bound,
    path_law,
    synthetic,
)
from otspec.reporting.means import standard_error

CELLS = "mixed:50:8:4,mixed:1000:4:4,close:1000:6:4,far:1000:6:4"
NESTED = "nested"
LOSSY = "hierarchical as released, one path (lossy)"


def rivals(remember: int = 0) -> dict[str, PathVerifier]:
    """All rules by name."""
    return {
        "block, one path": Block(),
        "hierarchical, one path": Hierarchical(),
        LOSSY: ReleasedHierarchical(),
        "list matching": TokenWise("list_matching", remember),
        "traversal": Traversal(),
        "greedy multi-path": GreedyMultiPath(),
        "layer": LayerVerification(remember=remember),
        "nested, sigma = 0": Nested(sigma=0.0),
        NESTED: Nested(),
    }


def tiny(models: int) -> Iterator[dict[str, Any]]:
    """Small models, exactly: accepted length, the worst ratio to the bound, and the total variation of texts."""
    rules = rivals(remember=5000)
    for vocab, length, count in TINY:
        drawn = [synthetic("tiny", vocab, seed) for seed in range(models)]
        limits = np.array([bound(model, count, length) for model in drawn])
        place = {"laws": "tiny", "vocab": vocab, "length": length, "paths": count, "models": models}
        for name, rule in rules.items():
            laws = [path_law(rule, model, count, length) for model in drawn]
            lengths = np.array([law.mean_accepted for law in laws])
            yield {
                **place,
                "verifier": name,
                "accepted": float(lengths.mean()),
                "worst": float((lengths / limits).min()),
                "largest": float((lengths / limits).max()),
                "tv": max(law.deviation for law in laws) / 2,
            }
        yield {**place, "verifier": "bound", "accepted": float(limits.mean()), "worst": 1.0, "largest": 1.0, "tv": 0.0}


def measure(cell: Cell, trees: int) -> Iterator[dict[str, Any]]:
    """A record for every rule."""
    rules = rivals()
    lengths: dict[str, list[float]] = {name: [] for name in rules}
    for seed in range(trees):
        tree = cell.tree(seed)
        for name, rule in rules.items():
            lengths[name].append(accepted(rule, tree))
    ours = np.array(lengths[NESTED])
    for name, values in lengths.items():
        mine = np.array(values)
        yield {
            **cell._asdict(),
            "verifier": name,
            "trees": trees,
            "accepted": float(mine.mean()),
            "error": standard_error(mine),
            "behind": float((ours - mine).mean()),
            "behind_error": standard_error(ours - mine),
        }


def main() -> None:
    """Run what was asked for, write it as it is measured, and show it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", default=CELLS, help="laws:V:L:K, separated by commas")
    parser.add_argument("--trees", type=int, default=60, help="trees (models with --tiny) per cell")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=Path, help="JSON lines, appended")
    given = parser.parse_args()
    if given.tiny:
        records = list(appended(tiny(given.trees), given.out))
        show(records, lambda r: f"{r['accepted']:.4f} ({r['worst']:.3f})", "mean accepted length (worst / bound)")
        show(records, lambda r: f"{r['tv']:.0e}" if r["tv"] < 1e-9 else f"{r['tv']:.3f}", "largest TV of texts")
    else:
        cells = [Cell.parse(text) for text in given.cells.split(",")]
        records = list(appended((record for cell in cells for record in measure(cell, given.trees)), given.out))
        show(records, lambda r: f"{r['accepted']:.2f} ± {r['error']:.2f}", "mean accepted length")
        show(records, lambda r: f"{r['behind']:+.2f} ± {r['behind_error']:.2f}", "what nested labels accept beyond it")


if __name__ == "__main__":
    main()

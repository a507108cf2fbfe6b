"""Last tokens that differ where paths share all before: accepted tokens of recorded trees, and what can be gained.

    python -m benchmarks.last_level [--data shipped-trees,smollm2-trees] [--trees 98]

K independent paths of L - 1 tokens are verified by nested labels; where a leaf is accepted, the optimal rule verifies
the last tokens of the paths that share it, independent ones or different ones; beside nested labels on L tokens.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from pathlib import Path

import numpy as np

import otspec.data
from benchmarks.reporting import show
from benchmarks.tables import with_error
from otspec import IID, Problem, WithoutReplacement, solve
from otspec.data.trees import TreeSource
from otspec.laws import FloatArray
from otspec.paths import Nested, Tree
from otspec.reporting.means import standard_error
from otspec.reporting.tables import TextTable

RULE = Nested()


def accepted(p: FloatArray, q: FloatArray, count: int, different: bool) -> float:
    """alpha* of the drafts after one prefix."""
    scheme = WithoutReplacement(q, n=min(count, int(np.count_nonzero(q)))) if different else IID(q, n=count)
    return float(solve(Problem(p, scheme)).plan.acceptance)


def distinct(q: FloatArray, count: int) -> float:
    """The chance that so many independent draws differ."""
    symmetric = np.zeros(count + 1)
    symmetric[0] = 1.0
    for chance in q:
        symmetric[1:] += chance * symmetric[:-1]
    return math.factorial(count) * float(symmetric[count])


def of_tree(recorded: otspec.data.RecordedTree, count: int, length: int) -> tuple[float, ...]:
    """Accepted by nested labels; with last tokens that are independent, that differ; the chance of a repeat."""
    paths = recorded.paths[:count, :length]
    whole = Tree.of(paths, recorded.target, recorded.draft)
    by_labels = float(RULE.stop_law(whole).sum(axis=1) @ whole.depth)
    above = Tree.of(paths[:, :-1], recorded.target, recorded.draft)
    stops = RULE.stop_law(above).sum(axis=1)
    lengths, unlike = np.full(2, stops @ above.depth), 1.0
    sharing = Counter(map(tuple, paths[:, :-1].tolist()))
    for node in np.flatnonzero(above.depth == length - 1):
        prefix = above.prefix(int(node))
        p, q = recorded.target(prefix), recorded.draft(prefix)
        lengths += stops[node] * np.array([accepted(p, q, sharing[prefix], different) for different in (False, True)])
        unlike *= distinct(q, sharing[prefix])
    return by_labels, *lengths, 1.0 - unlike


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="shipped-trees,smollm2-trees", help="recordings of the package, a list")
    parser.add_argument("--trees", type=int, default=98)
    asked = parser.parse_args()
    lines = []
    for name in asked.data.split(","):
        source = TreeSource(Path(otspec.data.__file__).with_name(f"{name}.safetensors"))
        recorded = [source.tree(number) for number in range(min(asked.trees, len(source)))]
        for length in 2, 3, 4:
            found = np.array([of_tree(one, 4, length) for one in recorded])
            means, gain = found.mean(axis=0), found[:, 2] - found[:, 1]
            lines.append(
                (
                    f"{name}, L = {length}",
                    *(f"{mean:.3f}" for mean in means[:3]),
                    with_error(float(gain.mean()), standard_error(gain), ".4f"),
                    f"{means[3]:.3f}",
                )
            )
    columns = ("K = 4", "nested", "independent", "different", "gain over independent", "chance of a repeat")
    show(TextTable("Last tokens that differ", columns, lines, "Accepted tokens; ± standard errors.", labels=1))


if __name__ == "__main__":
    main()

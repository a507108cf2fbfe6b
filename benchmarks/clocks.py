"""What clocks accept on small models, against exact plans level by level, and against nested labels.

    python -m benchmarks.clocks [--models 8]

Trees with two children after every prefix, drawn jointly, and two i.i.d. paths; exact, by enumeration.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

from otspec.laws import FloatArray
from otspec.paths import Clocks, Model, Nested, PathVerifier, PickByPlan, Tree, synthetic
from otspec.paths.enumeration import branching_trees, law_over, trees_of
from otspec.paths.shape import Shape
from otspec.paths.token_wise import Scheme
from otspec.reporting.means import standard_error
from otspec.schemes import IID, DraftScheme, Greedy, Systematic

LENGTH = 2


def jointly(model: Model, scheme: Scheme, children: int = 2) -> Iterator[tuple[float, Tree]]:
    """Every tree whose prefixes have so many distinct children by the scheme, with its probability."""
    for chance, tree in branching_trees(model, lambda q: scheme(q, children), LENGTH):
        leaves = [tree.prefix(int(leaf)) for leaf in tree.node[:, -1]]
        yield chance, model.tree(leaves, (children,) * LENGTH)


def _pairs(q: FloatArray, scheme: Scheme) -> DraftScheme:
    return scheme(q, 2)


def measure(models: int) -> Iterator[tuple[str, str, FloatArray]]:
    """Case, rule that clocks meet, and mean accepted lengths of clocks and the rule, shape (models, 2)."""
    for name, scheme in (("systematic", Systematic), ("greedy", Greedy)):
        by_plan = PickByPlan(partial(_pairs, scheme=scheme), "max_flow")
        rows = []
        for seed in range(models):
            model = synthetic("tiny", 4, seed)
            trees = list(jointly(model, scheme))
            rows.append([_accepted(trees, rule, model) for rule in (Clocks(scheme), by_plan)])
        yield f"{name}, (2, 2), V = 4", "PickByPlan", np.array(rows)
    rows = []
    for seed in range(models):
        model = synthetic("tiny", 3, seed)
        trees = list(trees_of(model, Shape((2, 1)), exchangeable=False))
        rows.append([_accepted(trees, rule, model) for rule in (Clocks(IID), Nested(sigma=0.0))])
    yield "i.i.d., (2, 1), V = 3", "nested, sigma = 0", np.array(rows)


def _accepted(trees: list[tuple[float, Tree]], rule: PathVerifier, model: Model) -> float:
    return law_over(trees, rule, model, LENGTH).mean_accepted


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=8, help="models a row")
    table = Table("siblings", "clocks", "other rule", "its length", "clocks less that")
    for case, other, lengths in measure(parser.parse_args().models):
        gain = lengths[:, 0] - lengths[:, 1]
        error = standard_error(gain)
        mean = lengths.mean(axis=0)
        table.add_row(case, f"{mean[0]:.3f}", other, f"{mean[1]:.3f}", f"{gain.mean():+.3f} ± {error:.3f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()

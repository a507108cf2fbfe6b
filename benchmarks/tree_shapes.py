"""Which rule verifies which tree best: every rule on every shape, at equal budgets of target positions.

    python -m benchmarks.tree_shapes [--trees 100] [--walks 4] [--laws mixed] [--vocab 1000] [--budgets 8] [--out FILE]
    python -m benchmarks.tree_shapes --two-levels [--trees 100]   # small models, exactly

Shapes are K paths from the root, paths behind a stem (delayed expansion [2602.16994]), and n-ary trees; a budget is the
number of drafted tokens, equal ones counted apart.  Every tree comes from a model of its own, and different shapes meet
the same models.  All rules meet the same trees, or, those that pick a path by a known law, the same texts of the model:
see `benchmarks.paths`.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.paths import accepted, texts
from otspec.laws import FloatArray, IntArray
from otspec.paths import (
    REGIMES,
    Block,
    GreedyMultiPath,
    LayerVerification,
    Model,
    Nested,
    PathVerifier,
    PickRule,
    PickThenBlock,
    TokenWise,
    Traversal,
    synthetic,
)
from otspec.paths.labels import whole
from otspec.paths.shape import Shape
from otspec.paths.sharing import PLAIN, refine
from otspec.paths.tree import Prefix

RULES: dict[str, PathVerifier] = {
    "block, first path": Block(),
    "token-wise rrs": TokenWise("rrs", exchangeable=False),
    "token-wise interval": TokenWise("interval"),
    "traversal": Traversal(),
    "layer": LayerVerification(),
    "greedy labels": GreedyMultiPath(),
    "pick then block": PickThenBlock(),
    "nested, sigma = 0": Nested(sigma=0.0),
    "nested": Nested(),
}
BASELINE = "token-wise interval"
SHAPES: dict[int, list[tuple[int, ...]]] = {
    8: [(1,) * 8, (2, 1, 1, 1), (4, 1), (1, 1, 2, 1, 1), (1, 1, 3, 1), (2, 3)],
    16: [(1,) * 16, (2, *(1,) * 7), (4, 1, 1, 1), (1, 1, 2, *(1,) * 6), (1, 1, 1, 1, 4, 1, 1), (1, 2, 2, 2), (4, 3)],
    32: [(4, *(1,) * 7), (8, 1, 1, 1), (1, 1, 3, *(1,) * 9), (1, 1, 1, 1, 4, *(1,) * 6), (2, 2, 2, 2), (2, 2, 1, 2, 1)],
}
"""By budget: as many drafted tokens, or a few less."""
TWO_LEVELS = ((2, 2), (4, 2), (3, 3), (4, 4), (9, 1))


def measure(laws: str, vocab: int, budget: int, trees: int, walks: int, baseline: str) -> Iterator[dict[str, Any]]:
    """A record for every shape and rule."""
    for branching in SHAPES[budget]:
        lengths: dict[str, list[float]] = {name: [] for name in RULES}
        for seed in range(trees):
            model = synthetic(laws, vocab, seed)
            tree = model.drawn(branching, np.random.default_rng((seed, 1)))
            lines = texts(model, len(branching), seed, walks)
            for name, rule in RULES.items():
                lengths[name].append(accepted(rule, tree, lines))
        base = np.array(lengths[baseline])
        for name, values in lengths.items():
            mine = np.array(values)
            yield {
                "laws": laws,
                "vocab": vocab,
                "budget": budget,
                "branching": list(branching),
                "slots": Shape(branching).slots - 1,
                "verifier": name,
                "baseline": baseline,
                "trees": trees,
                "walks": walks,
                "accepted": float(mine.mean()),
                "error": _error(mine),
                "gain": float((mine - base).mean()),
                "gain_error": _error(mine - base),
            }


def _error(values: FloatArray) -> float:
    return float(values.std(ddof=1) / np.sqrt(values.size))


class OwnChildren:
    """Picks a child of the picked slot, level by level, and forgets that other slots may have drawn the same prefix."""

    def along(self, target: FloatArray, draft: FloatArray, tokens: IntArray, shape: Shape) -> FloatArray:
        """Proposal laws, shape (L, V), of the tokens of a picked path."""
        laws = zip(target, draft, shape.branching[: len(tokens)], strict=True)
        return np.array([refine(p, q, np.eye(b)[-1], whole(), 1.0, PLAIN).proposal for p, q, b in laws])


def two_levels(models: int) -> Iterator[dict[str, Any]]:
    """Accepted length, exact, of picking level by level and of nested labels, on trees of two levels."""
    for vocab, branching in itertools.product((3, 8, 20), TWO_LEVELS):
        shape = Shape(branching)
        rules: dict[str, PickRule] = {
            "own children": OwnChildren(),
            "pick then block": PickThenBlock(),
            "nested, sigma = 0": Nested(sigma=0.0),
        }
        for name, rule in rules.items():
            yield {
                "vocab": vocab,
                "branching": list(branching),
                "verifier": name,
                "accepted": float(np.mean([worth(rule, synthetic("tiny", vocab, s), shape) for s in range(models)])),
            }


def worth(rule: PickRule, model: Model, shape: Shape) -> float:
    """Mean accepted length over all drafts: the sum of A(vx) = min(A(v) p(x|v), g(vx)) over all prefixes."""
    vocab = np.size(model.target(()))
    seen: dict[Prefix, float] = {}
    for above in itertools.product(range(vocab), repeat=shape.depth - 1):
        path = (*above, 0)  # the last token decides nothing
        target = np.array([model.target(path[:i]) for i in range(shape.depth)])
        draft = np.array([model.draft(path[:i]) for i in range(shape.depth)])
        proposal = rule.along(target, draft, np.array(path), shape)
        g = kept = 1.0
        for i, (p, law) in enumerate(zip(target, proposal, strict=True)):
            below = np.minimum(kept * p, g * law)
            if i == shape.depth - 1:
                seen[path] = float(below.sum())
            else:
                kept, g = float(below[path[i]]), g * float(law[path[i]])
                seen[path[: i + 1]] = kept
    return sum(seen.values())


def main() -> None:
    """Run what was asked for, write it as it is measured, and show it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", default="mixed,close,sharp", help=f"of {', '.join(REGIMES)}")
    parser.add_argument("--vocab", type=int, default=1000)
    parser.add_argument("--budgets", default="8,16,32", help=f"of {', '.join(map(str, SHAPES))}")
    parser.add_argument("--trees", type=int, default=100, help="trees a shape; models with --two-levels")
    parser.add_argument("--walks", type=int, default=4, help="texts for each tree; 0: all rules on trees")
    parser.add_argument("--two-levels", action="store_true")
    parser.add_argument("--baseline", choices=list(RULES), default=BASELINE, help="the rule that gains are over")
    parser.add_argument("--out", type=Path, help="JSON lines, appended")
    given = parser.parse_args()
    if given.two_levels:
        source = two_levels(given.trees)
    else:
        cells = itertools.product(given.laws.split(","), map(int, given.budgets.split(",")))
        source = (
            record
            for laws, budget in cells
            for record in measure(laws, given.vocab, budget, given.trees, given.walks, given.baseline)
        )
    rows: dict[tuple[Any, ...], dict[str, str]] = {}
    for record in source:
        if given.out:
            with given.out.open("a") as lines:
                lines.write(json.dumps(record) + "\n")
        shape = str(tuple(record["branching"]))
        place = ("tiny", record["vocab"], shape) if given.two_levels else (record["laws"], record["slots"], shape)
        shown = f"{record['accepted']:.3f}" if given.two_levels else f"{record['accepted']:.2f} ± {record['error']:.2f}"
        if not given.two_levels:
            shown += f", {record['gain']:+.2f} ± {record['gain_error']:.2f}"
        rows.setdefault(place, {})[record["verifier"]] = shown
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    table = Table(
        "laws",
        "V" if given.two_levels else "tokens",
        "branching",
        *names,
        title="mean accepted length, and gain over the baseline",
    )
    for place, row in rows.items():
        table.add_row(*map(str, place), *(row[name] for name in names))
    Console(width=190).print(table)


if __name__ == "__main__":
    main()

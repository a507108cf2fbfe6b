"""Which rule verifies which tree best: every rule on every shape, at equal budgets of target positions.

    python -m benchmarks.tree_shapes [--trees 100] [--laws mixed,shipped] [--vocab 1000] [--budgets 16,32] [--out FILE]
    python -m benchmarks.tree_shapes --two-levels [--trees 100]   # small models, exactly

Shapes are K paths from the root, paths behind a stem (delayed expansion [2602.16994]), n-ary trees and mixtures; a
budget is a number of drafted tokens, equal ones counted apart.  All rules and shapes meet the same contexts, and draw
the same tokens there.  Lengths are exact given what `otspec.paths.reach` draws: a text of the target's for rules that
pick a path, a drafted tree for the others.  Laws are as in `benchmarks.best_shapes`, or a profile such as llama3.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.best_shapes import contexts_of, spelled
from benchmarks.reporting import appended, show
from otspec.laws import FloatArray, IntArray
from otspec.paths import (
    REGIMES,
    Block,
    Context,
    GreedyMultiPath,
    LayerVerification,
    Model,
    Nested,
    PathVerifier,
    PickRule,
    PickThenBlock,
    TokenWise,
    Traversal,
    measure,
    synthetic,
)
from otspec.reporting.means import standard_error
from otspec.reporting.tables import TextTable
from otspec.verification.rules.nested.labels import whole
from otspec.verification.rules.nested.sharing import PLAIN, refine
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.tree import Prefix

RULES: dict[str, PathVerifier] = {
    "block": Block(),
    "token-wise rrs": TokenWise("rrs", exchangeable=False),
    "token-wise interval": TokenWise("interval"),
    "traversal": Traversal(),
    "layer": LayerVerification(),
    "greedy labels": GreedyMultiPath(),
    "pick then block": PickThenBlock(),
    "nested without look-ahead": Nested(sigma=0.0),
    "nested": Nested(),
}
BASELINES = ("token-wise interval", "traversal", "pick then block")
"""What gains are over: one token at a time, from the leaves to the root, and picking level by level."""
LEVEL = 1.96
"""Standard errors within which the mean of many contexts is with 95 %."""
SHAPES: dict[int, list[tuple[int, ...]]] = {
    8: [(1,) * 8, (2, 1, 1, 1), (4, 1), (1, 1, 2, 1, 1), (1, 1, 3, 1), (2, 3)],
    16: [
        (1,) * 8,
        (2, *(1,) * 7),
        (4, 1, 1, 1),
        (1, 1, 2, *(1,) * 5),
        (1, 1, 1, 1, 3, 1, 1, 1),
        (1, 2, 2, 1, 1),
        (2, 2, 2),
        (3, 4),
    ],
    32: [
        (4, *(1,) * 7),
        (8, 1, 1, 1),
        (1, 1, 5, *(1,) * 5),
        (1, 1, 1, 1, 7, 1, 1, 1),
        (2, 2, *(1,) * 6),
        (2, 1, 1, 2, 1, 1, 1, 1),
        (2, 2, 2, 2),
        (5, 5),
    ],
}
"""By budget: at most so many drafted tokens, and hardly fewer but for the single path of the same depth."""
TWO_LEVELS = ((2, 2), (4, 2), (3, 3), (4, 4), (9, 1))


def lengths_of(rule: PathVerifier, contexts: Sequence[Context], branching: tuple[int, ...]) -> FloatArray:
    """Accepted lengths, context by context.

    Traversal hangs on the first path of its tree as block verification does, of which more is known: to what it accepts
    is added what block verification accepts along the context's text, less that of the tree's first path.
    """
    lengths = measure(rule, contexts, branching).lengths
    if isinstance(rule, Traversal):
        lengths = lengths + measure(Block(), contexts, branching).lengths
        for number, context in enumerate(contexts):
            tree = context.tree(branching)
            lengths[number] -= tree.depth @ Block().stop_law(tree).sum(axis=1)
    return lengths


def measure_shapes(laws: str, vocab: int, budget: int, trees: int, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A record for every shape and rule."""
    contexts = contexts_of(laws, vocab, trees)
    for branching in SHAPES[budget]:
        lengths = {name: lengths_of(RULES[name], contexts, branching) for name in names}
        for name, mine in lengths.items():
            gains = {base: mine - lengths[base] for base in BASELINES if base in lengths}
            yield {
                "laws": laws,
                "vocab": int(contexts[0].text(1).target.shape[1]),
                "budget": budget,
                "branching": list(branching),
                "slots": Shape(branching).slots - 1,
                "verifier": name,
                "trees": trees,
                "accepted": float(mine.mean()),
                "error": standard_error(mine),
                "gains": {base: [float(gain.mean()), standard_error(gain)] for base, gain in gains.items()},
            }


class OwnChildren:
    """Picks a child of the picked slot, level by level, and forgets that other slots may have drawn the same prefix."""

    def along(self, target: FloatArray, draft: FloatArray, tokens: IntArray, shape: Shape) -> FloatArray:
        """Proposal laws, shape (L, V), of the tokens of a picked path."""
        laws = zip(target, draft, shape.branching, strict=True)
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


def shapes_table(records: Sequence[dict[str, Any]]) -> TextTable:
    """Rules by shapes, and what nested gains."""
    names = list(dict.fromkeys(one["verifier"] for one in records))
    cells: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
    for one in records:
        at = (one["laws"], str(one["vocab"]), str(one["slots"]), spelled(one["branching"]))
        cells.setdefault(at, {})[one["verifier"]] = one
    rows: list[tuple[str, ...]] = []
    for place, row in cells.items():
        accepted = (_with_interval(row[name]["accepted"], row[name]["error"]) for name in names)
        gains = row["nested"]["gains"] if "nested" in row else {}
        rows.append((*place, *accepted, *(f"{gain:+.2f} ± {LEVEL * error:.2f}" for gain, error in gains.values())))
    over = [f"nested over {base}" for base in BASELINES if "nested" in names and base in names]
    note = "Mean accepted length ± half of its 95 % interval; gains context by context."
    return TextTable(
        "Every rule on every shape", ("laws", "V", "tokens", "branching", *names, *over), rows, note, labels=4
    )


def _with_interval(mean: float, error: float) -> str:
    return f"{mean:.2f} ± {LEVEL * error:.2f}"


def two_levels_table(records: Sequence[dict[str, Any]]) -> TextTable:
    """Rules by shapes of two levels."""
    names = list(dict.fromkeys(one["verifier"] for one in records))
    cells: dict[tuple[str, str], dict[str, float]] = {}
    for one in records:
        cells.setdefault((str(one["vocab"]), spelled(one["branching"])), {})[one["verifier"]] = one["accepted"]
    rows = [(*place, *(f"{row[name]:.3f}" for name in names)) for place, row in cells.items()]
    return TextTable("Two levels", ("V", "branching", *names), rows, "Mean accepted length, exact.", labels=2)


def main() -> None:
    """Run what was asked for, write it as it is measured, and show it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", default="mixed,close,sharp,shipped", help=f"of {', '.join(REGIMES)}, shipped, llama3")
    parser.add_argument("--vocab", type=int, default=1000)
    parser.add_argument("--budgets", default="16,32", help=f"of {', '.join(map(str, SHAPES))}")
    parser.add_argument("--trees", type=int, default=100, help="contexts; models with --two-levels")
    parser.add_argument("--rules", default=",".join(RULES))
    parser.add_argument("--two-levels", action="store_true")
    parser.add_argument("--out", type=Path, help="JSON lines, appended")
    given = parser.parse_args()
    if given.two_levels:
        source = two_levels(given.trees)
    else:
        cells = itertools.product(given.laws.split(","), map(int, given.budgets.split(",")))
        names = given.rules.split(",")
        source = (
            record for laws, budget in cells for record in measure_shapes(laws, given.vocab, budget, given.trees, names)
        )
    records = list(appended(source, given.out))
    show(two_levels_table(records) if given.two_levels else shapes_table(records))


if __name__ == "__main__":
    main()

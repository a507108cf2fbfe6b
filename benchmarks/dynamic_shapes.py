"""Whether a shape chosen for each context, by what the draft model knows, is better than one shape for all.

    python -m benchmarks.dynamic_shapes [--laws mixed,shipped] [--budgets 16,32] [--contexts 60] [--out FILE]

For `nested`, at equal budgets of drafted tokens.  ``one``: the best shape for all contexts.  ``entropy``: two shapes,
the best of the contexts where the first draft law has an entropy above the median, and of the others.  ``confident``: a
stem while the likeliest token has a draft probability above a threshold, then paths (`otspec.paths.Confident`), the
best threshold and number of paths of a grid.  All is chosen on some contexts, and measured on as many others.
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
from otspec.laws import FloatArray
from otspec.paths import REGIMES, Confident, Context, Nested, best_shape
from otspec.paths.dynamic import Choice, chosen_reach, chosen_tree
from otspec.paths.tree import Prefix
from otspec.reporting.means import standard_error
from otspec.reporting.tables import TextTable

DEEPEST = 12
LEAST = (0.5, 0.7, 0.8, 0.9, 0.97)
PATHS = (2, 3, 4, 6, 8)


def entropy(law: FloatArray) -> float:
    """In nats."""
    kept = law[law > 0]
    return float(-(kept * np.log(kept)).sum())


def one_shape(branching: tuple[int, ...]) -> Choice:
    """The same for all contexts."""
    return lambda prefix, laws: branching


def by_entropy(median: float, low: tuple[int, ...], high: tuple[int, ...]) -> Choice:
    """One of two shapes, by the entropy of the first draft law."""

    def choice(prefix: Prefix, laws: Sequence[FloatArray]) -> tuple[int, ...]:
        return low if entropy(laws[0]) <= median else high

    return choice


def lengths(choice: Choice, contexts: Sequence[Context]) -> FloatArray:
    """Accepted lengths, context by context."""
    return np.array([chosen_reach(Nested(), choice, context, DEEPEST).sum() for context in contexts])


def choices(contexts: Sequence[Context], budget: int) -> dict[str, tuple[Choice, str]]:
    """What each way to choose comes to, and how it is written."""
    rule = Nested()
    first = np.array([entropy(context.text(1).draft[0]) for context in contexts])
    median = float(np.median(first))

    def best(those: Sequence[Context]) -> tuple[int, ...]:
        return best_shape(rule, those, budget, deepest=DEEPEST).branching

    one = best(contexts)
    low, high = (
        best([context for context, mine in zip(contexts, part, strict=True) if mine])
        for part in (first <= median, first > median)
    )
    grid = [Confident(least, paths, budget, DEEPEST) for least, paths in itertools.product(LEAST, PATHS)]
    sure = max(grid, key=lambda one: float(lengths(one, contexts).mean()))
    return {
        "one": (one_shape(one), spelled(one)),
        "entropy": (by_entropy(median, low, high), f"{spelled(low)} up to {median:.2f} nats, {spelled(high)} above"),
        "confident": (sure, f"stem from {sure.least:g}, {sure.paths} paths"),
    }


def compare(laws: str, vocab: int, budget: int, count: int) -> Iterator[dict[str, Any]]:
    """A record for every way to choose."""
    chosen_on, judged_on = contexts_of(laws, vocab, count), contexts_of(laws, vocab, count, count)
    base: FloatArray | None = None
    for name, (choice, spelling) in choices(chosen_on, budget).items():
        mine = lengths(choice, judged_on)
        base = mine if base is None else base
        drafted = [chosen_tree(choice, context, DEEPEST) for context in judged_on]
        yield {
            "laws": laws,
            "budget": budget,
            "contexts": count,
            "way": name,
            "chosen": spelling,
            "slots": float(np.mean([tree.shape.slots - 1 for tree in drafted])),
            "nodes": float(np.mean([tree.size - 1 for tree in drafted])),
            "accepted": float(mine.mean()),
            "error": standard_error(mine),
            "gain": float((mine - base).mean()),
            "gain_error": standard_error(mine - base),
        }


def table(records: Sequence[dict[str, Any]]) -> TextTable:
    """Ways to choose, by laws and budgets."""
    rows: list[tuple[str, ...]] = [
        (
            one["laws"],
            str(one["budget"]),
            one["way"],
            one["chosen"],
            f"{one['slots']:.1f}",
            f"{one['nodes']:.1f}",
            f"{one['accepted']:.2f} ± {one['error']:.2f}",
            "-" if one["way"] == "one" else f"{one['gain']:+.3f} ± {one['gain_error']:.3f}",
        )
        for one in records
    ]
    header = ("laws", "budget", "way", "chosen", "tokens", "nodes", "accepted", "over one shape")
    note = (
        f"Chosen on {records[0]['contexts']} contexts, measured on as many others, ± standard error; tokens and "
        "distinct nodes drafted on average."
    )
    return TextTable("Shapes chosen for each context", header, rows, note, labels=4)


def main() -> None:
    """Compare, write it, and show it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", default="mixed,sharp,shipped", help=f"of {', '.join(REGIMES)}, shipped")
    parser.add_argument("--vocab", type=int, default=1000)
    parser.add_argument("--budgets", default="16,32")
    parser.add_argument("--contexts", type=int, default=60, help="to choose on; as many more to measure on")
    parser.add_argument("--out", type=Path, help="JSON lines, appended")
    given = parser.parse_args()
    cells = itertools.product(given.laws.split(","), map(int, given.budgets.split(",")))
    found = (record for laws, budget in cells for record in compare(laws, given.vocab, budget, given.contexts))
    show(table(list(appended(found, given.out))))


if __name__ == "__main__":
    main()

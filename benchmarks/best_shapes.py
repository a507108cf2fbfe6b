"""Which tree to draft: the best shape of every rule for a budget of target positions and a cost per draft level.

    python -m benchmarks.best_shapes [--laws mixed,close,sharp,shipped] [--budgets 8,16,32,64] [--level-cost 0.05]
                                     [--contexts 60] [--out FILE]
    python -m benchmarks.best_shapes --out FILE --plot docs/best_shapes.png   # draw what is in the file

A step takes a target pass, and so much of one for each level that is drafted.  Shapes are chosen by
`otspec.paths.best_shape` on some contexts and measured on as many others; all rules meet the same contexts, and gains
are of tokens in the time of a target pass, context by context.  Laws are regimes of `otspec.paths.REGIMES`, each
context a model of its own, or those of the shipped pair after held-out texts.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.reporting import appended, show
from otspec.data import PROFILES, ProfileSource
from otspec.laws import FloatArray
from otspec.paths import (
    REGIMES,
    Block,
    Context,
    Nested,
    PathVerifier,
    PickThenBlock,
    TokenWise,
    Traversal,
    best_shape,
    measure,
    scattered,
    shapes_within,
    synthetic,
)
from otspec.reporting.charts import SERIES, Axis, line_chart
from otspec.reporting.layers import words
from otspec.reporting.means import standard_error
from otspec.reporting.pictures import picture
from otspec.reporting.style import looks
from otspec.reporting.tables import TextTable
from otspec.verification.rules.protocol import PickRule

RULES: dict[str, PathVerifier] = {
    "token-wise interval": TokenWise("interval"),
    "block": Block(),
    "traversal": Traversal(),
    "pick then block": PickThenBlock(),
    "nested": Nested(),
}
BASELINE = "token-wise interval"
DEEPEST = 8
TOP_K = 1000
"""Draft tokens kept where laws are of a profile."""
COARSE = (2, 3, 4, 8, 16, 32)
"""Numbers of paths that are tried for rules that are judged on drafted trees, which take longer."""

DRAWS, APART = 2, 1_000_000
"""Trees of a context for traversal, and how far apart their seeds are."""


def contexts_of(laws: str, vocab: int, count: int, first: int = 0) -> list[Context]:
    """Places where drafting begins, by number."""
    numbers = range(first, first + count)
    if laws in PROFILES:
        source = ProfileSource(replace(PROFILES[laws], vocab=vocab))
        return [Context(scattered(source, seed, top_k=TOP_K), seed) for seed in numbers]
    if laws != "shipped":
        return [Context(synthetic(laws, vocab, seed, remember=4096), seed) for seed in numbers]
    from otspec.decode import model_after
    from otspec.decode.shipped import held_out, load

    target, draft, _ = load()
    rows = held_out(240)
    starts = [(rows[number % len(rows)], 64 + 48 * (number // len(rows) % 4)) for number in numbers]
    return [
        Context(model_after(target, draft, row[:start]), number)
        for number, (row, start) in zip(numbers, starts, strict=True)
    ]


def redrawn(contexts: Sequence[Context], rule: PathVerifier) -> list[Context]:
    """The contexts, each as often as the rule needs draws of its trees: traversal hangs on the order of siblings."""
    draws = DRAWS if isinstance(rule, Traversal) else 1
    return [Context(one.model, one.seed + draw * APART) for one in contexts for draw in range(draws)]


def candidates(rule: PathVerifier, budget: int) -> list[tuple[int, ...]]:
    """The shapes that are tried: all, or a coarse grid of them."""
    every = shapes_within(budget, DEEPEST)
    if isinstance(rule, PickRule):
        return every
    return [one for one in every if max(one) in (1, *COARSE) and one.count(max(one)) in (1, len(one))]


def rates(lengths: FloatArray, level_cost: float, depth: int) -> FloatArray:
    """Tokens in the time of a target pass, context by context."""
    return (1.0 + lengths) / (1.0 + level_cost * depth)


def choose(
    laws: str, vocab: int, budgets: Sequence[int], level_cost: float, count: int, names: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """A record for every rule and budget."""
    chosen_on, judged_on = contexts_of(laws, vocab, count), contexts_of(laws, vocab, count, count)
    for budget in budgets:
        base = None
        for name in names:
            rule = RULES[name]
            best = best_shape(rule, redrawn(chosen_on, rule), budget, level_cost, candidates(rule, budget), DEEPEST)
            lengths = measure(rule, redrawn(judged_on, rule), best.branching).lengths.reshape(count, -1).mean(axis=1)
            mine = rates(lengths, level_cost, len(best.branching))
            base = mine if name == BASELINE else base
            yield {
                "laws": laws,
                "vocab": vocab,
                "budget": budget,
                "level_cost": level_cost,
                "verifier": name,
                "contexts": count,
                "branching": list(best.branching),
                "slots": best.slots,
                "accepted": float(lengths.mean()),
                "error": standard_error(lengths),
                "rate": float(mine.mean()),
                "rate_error": standard_error(mine),
                "gain": None if base is None else float((mine - base).mean()),
                "gain_error": None if base is None else standard_error(mine - base),
            }


def spelled(branching: Sequence[int]) -> str:
    """A shape in short: runs of equal numbers as n x times."""
    runs = [(children, len(list(run))) for children, run in itertools.groupby(branching)]
    return ", ".join(
        f"{children} x {many}" if many > 2 else ", ".join([str(children)] * many) for children, many in runs
    )


def table(records: Sequence[dict[str, Any]]) -> TextTable:
    """Best shape and rate, rules by budgets."""
    rows: list[tuple[str, ...]] = []
    for one in records:
        gain = "-" if not one["gain"] else f"{one['gain']:+.2f} ± {one['gain_error']:.2f}"
        accepted = f"{one['accepted']:.2f} ± {one['error']:.2f}"
        rate = f"{one['rate']:.2f} ± {one['rate_error']:.2f}"
        rows.append((one["laws"], str(one["budget"]), one["verifier"], spelled(one["branching"]), accepted, rate, gain))
    header = ("laws", "budget", "rule", "best branching", "accepted", "rate", f"over {BASELINE}")
    note = (
        f"Chosen on {records[0]['contexts']} contexts, measured on as many others, ± standard error. Rate: tokens in "
        f"the time of a target pass, a level of drafts costing {records[0]['level_cost']:g} of one."
    )
    return TextTable("The best shape of every rule", header, rows, note, labels=4)


def plot(records: Sequence[dict[str, Any]], path: Path) -> None:
    """Rates over budgets, each at its best shape, a chart for each kind of laws; the shapes of nested beside."""
    styles = {rule: look for rule, look in looks(RULES).items() if any(one["verifier"] == rule for one in records)}
    charts = []
    for name in dict.fromkeys(one["laws"] for one in records):
        mine = [one for one in records if one["laws"] == name]
        rows = [
            {
                SERIES: one["verifier"],
                "x": str(one["budget"]),
                "y": one["rate"],
                "low": one["rate"] - one["rate_error"],
                "high": one["rate"] + one["rate_error"],
            }
            for one in mine
        ]
        budgets = Axis("drafted tokens at most", places=[str(at) for at in sorted({one["budget"] for one in mine})])
        chart = line_chart(rows, replace(budgets, apart=0.6), Axis("tokens per target pass time"), styles, name)
        shapes = [
            {"x": str(one["budget"]), "y": one["rate"] + one["rate_error"], "text": spelled(one["branching"])}
            for one in mine
            if one["verifier"] == "nested"
        ]
        charts.append(chart + words(shapes, size=10, rise=8))
    note = "Means over contexts, with one standard error. Numbers above: the best shape of nested."
    picture(charts, styles, note=note).save(path)


def main() -> None:
    """Choose and measure, write it as it is measured, and show it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", default="mixed,close,sharp,shipped", help=f"of {', '.join(REGIMES)}, shipped")
    parser.add_argument("--vocab", type=int, default=1000)
    parser.add_argument("--budgets", default="8,16,32,64")
    parser.add_argument("--level-cost", type=float, default=0.05, help="of a target pass, for each drafted level")
    parser.add_argument("--contexts", type=int, default=60, help="to choose on; as many more to measure on")
    parser.add_argument("--rules", default=",".join(RULES))
    parser.add_argument("--out", type=Path, help="JSON lines, appended")
    parser.add_argument("--plot", type=Path, help="draw the records in --out")
    given = parser.parse_args()
    if given.plot:
        if given.out is None:
            parser.error("--plot draws the records in --out; name that file")
        stored = [json.loads(line) for line in given.out.read_text().splitlines()]
        plot(stored, given.plot)
        show(table(stored))
        return
    budgets, rules = [int(budget) for budget in given.budgets.split(",")], given.rules.split(",")
    found = (
        record
        for laws in given.laws.split(",")
        for record in choose(laws, given.vocab, budgets, given.level_cost, given.contexts, rules)
    )
    show(table(list(appended(found, given.out))))


if __name__ == "__main__":
    main()

"""How far nested labels are from the best causal verifier, at real vocabularies: accepted length over the bound.

    python -m benchmarks.causal_bound [--laws mixed,close,sharp,far] [--vocab 1000] [--out FILE]

Every text and every tree comes from a model of its own.  K paths of L tokens are part of 8 paths of 8, so all cells of
a regime share one sample.  The rules walk along some of the texts that the bound is estimated from.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.reporting import appended
from otspec.laws import FloatArray
from otspec.paths import REGIMES, Models, Nested, PickRule, synthetic
from otspec.reporting.means import standard_error
from otspec.verification.bounds.causal_bound import Ratios, Sums, bound_of, draw_ratios, line_ratios, tree_ratios
from otspec.verification.evaluation.walking import Line, length_along, model_seeds, target_line
from otspec.verification.trees.shape import Shape

RULES: dict[str, PickRule] = {
    "nested": Nested(),
    "sigma = .35, 8 parts": Nested(sigma=0.35, parts=8),
    "sigma = .5, 8 parts": Nested(parts=8),
    "sigma = .75, 8 parts": Nested(sigma=0.75, parts=8),
}
LENGTHS, COUNTS = (4, 6, 8), (2, 4, 8)
FIRST = 500
"""Texts and trees to find the cuts with: the bound is flat near the best ones."""


def measure(
    laws: str,
    vocab: int,
    walks: int,
    texts: int,
    trees: int,
    lengths: tuple[int, ...] = LENGTHS,
    counts: tuple[int, ...] = COUNTS,
    first: int = FIRST,
) -> Iterator[dict[str, Any]]:
    """A record for every length, number of paths and rule."""
    models: Models = partial(synthetic, laws, vocab)
    whole, rng = Shape.paths(max(counts), max(lengths)), np.random.default_rng(0)
    chosen = draw_ratios(models, whole, first, rng)
    accepted: dict[tuple[int, int, str], list[float]] = {}
    ratios = []
    for number, seed in enumerate(model_seeds(texts, rng)):
        line = target_line(models(seed), whole.depth, rng)
        ratios.append(line_ratios(line))
        for length in lengths if number < walks else ():
            part = Line(line.target[:length], line.draft[:length], line.tokens[:length])
            for count in counts:
                for name, rule in RULES.items():
                    values = accepted.setdefault((length, count, name), [])
                    values.append(length_along(rule, part, Shape.paths(count, length)))
    drafted = [tree_ratios(models(seed), whole, rng) for seed in model_seeds(trees, rng)]
    second = Ratios(np.array(ratios), np.array(drafted))
    for length in lengths:
        for count in counts:
            known = second.of_paths(count, length)
            found = bound_of(chosen.of_paths(count, length), known, (length,))
            with np.errstate(divide="ignore"):
                parts = Sums.of(known, found.window).influences(np.log(np.array(found.cuts)))
            base = np.array(accepted[length, count, "nested"])
            for name in RULES:
                mine = np.array(accepted[length, count, name])
                yield {
                    "laws": laws,
                    "vocab": vocab,
                    "length": length,
                    "paths": count,
                    "rule": name,
                    "accepted": float(mine.mean()),
                    "error": standard_error(mine),
                    "gain": float((mine - base).mean()),
                    "gain_error": standard_error(mine - base),
                    "bound": found.value,
                    "bound_error": found.error,
                    "cuts": found.cuts,
                    **_ratio(mine, *parts),
                }


def _ratio(accepted: FloatArray, texts: FloatArray, trees: FloatArray) -> dict[str, float]:
    """Accepted length over the bound, and its standard error to first order; the lengths are of the first texts."""
    bound = texts.mean() + trees.mean()
    ratio = accepted.mean() / bound
    both, alone = accepted.size, texts.size - accepted.size
    variance = both * np.var(accepted / both - ratio * texts[:both] / texts.size, ddof=1)
    variance += alone * (ratio / texts.size) ** 2 * texts.var(ddof=1) + (ratio * standard_error(trees)) ** 2
    return {"ratio": float(ratio), "ratio_error": float(np.sqrt(variance) / bound)}


def main() -> None:
    """Measure, write records as they come, and show the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laws", default="mixed,close,sharp,far", help=f"of {', '.join(REGIMES)}")
    parser.add_argument("--vocab", type=int, default=1000)
    parser.add_argument("--walks", type=int, default=2000, help="texts that the rules walk along")
    parser.add_argument("--texts", type=int, default=16000, help="all texts, for the bound")
    parser.add_argument("--trees", type=int, default=3000, help="trees, for the bound")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--paths", default=",".join(map(str, COUNTS)))
    parser.add_argument("--out", type=Path, help="JSON lines, appended")
    given = parser.parse_args()
    lengths, counts = (tuple(map(int, text.split(","))) for text in (given.lengths, given.paths))
    table = Table("laws L K", "bound", *RULES, title="mean accepted length, % of the bound, gain over the default")
    rows: dict[str, list[str]] = {}
    for laws in given.laws.split(","):
        found = measure(laws, given.vocab, given.walks, given.texts, given.trees, lengths, counts)
        for record in appended(found, given.out):
            cell = f"{laws} {record['length']} {record['paths']}"
            row = rows.setdefault(cell, [f"{record['bound']:.2f} ± {record['bound_error']:.2f}"])
            row.append(
                f"{record['accepted']:.2f} ± {record['error']:.2f}, {100 * record['ratio']:.1f} ± "
                f"{100 * record['ratio_error']:.1f} %, {record['gain']:+.3f} ± {record['gain_error']:.3f}"
            )
    for cell, row in rows.items():
        table.add_row(cell, *row)
    Console(width=170).print(table)


if __name__ == "__main__":
    main()

"""How far nested labels are from the best causal verifier, at real vocabularies: accepted length over the bound.

Every text and every tree comes from a model of its own.  K paths of L tokens are part of 8 paths of 8, so all cells of
a regime share one sample.  The rules walk along some of the texts that the bound is estimated from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np
import typer

from benchmarks.comparing import compared
from benchmarks.path_rules.grid import NESTED, PLACE, Laws, Vocab, models_of, names_of, verifier_of
from benchmarks.questions import Out, Question, answer
from benchmarks.reporting import Record
from benchmarks.tables import gain_over, pivot, with_error
from otspec.laws import FloatArray
from otspec.paths import Nested, PickRule
from otspec.reporting.console import numbers
from otspec.reporting.means import standard_error
from otspec.reporting.tables import TextTable
from otspec.verification.bounds.causal_bound import Ratios, Sums, bound_of, draw_ratios, line_ratios, tree_ratios
from otspec.verification.evaluation.walking import Line, length_along, model_seeds, target_line
from otspec.verification.trees.shape import Shape

RULES: dict[str, PickRule] = {
    NESTED: Nested(),
    "sigma = .35, 8 parts": Nested(sigma=0.35, parts=8),
    "sigma = .5, 8 parts": Nested(parts=8),
    "sigma = .75, 8 parts": Nested(sigma=0.75, parts=8),
}
FIRST = 500
"""Texts and trees to find the cuts with: the bound is flat near the best ones."""


def causal_bound(
    laws: Laws = "mixed,close,sharp,far",
    vocab: Vocab = 1000,
    walks: Annotated[int, typer.Option(min=2, help="Texts that the rules walk along.")] = 2000,
    texts: Annotated[int, typer.Option(min=2, help="All texts, for the bound.")] = 16_000,
    trees: Annotated[int, typer.Option(min=2, help="Trees, for the bound.")] = 3000,
    lengths: Annotated[str, typer.Option(help="L, a list.")] = "4,6,8",
    paths: Annotated[str, typer.Option(help="K, a list.")] = "2,4,8",
    out: Out = None,
) -> None:
    """Accepted length of nested labels over the bound on causal rules, and what look-ahead has to do with it."""
    names, ls, ks = names_of(laws), numbers("--lengths", lengths), numbers("--paths", paths)
    answer(CAUSAL_BOUND, (one for name in names for one in measure(name, vocab, walks, texts, trees, ls, ks)), out)


def measure(
    laws: str,
    vocab: int,
    walks: int,
    texts: int,
    trees: int,
    lengths: Sequence[int],
    counts: Sequence[int],
    first: int = FIRST,
) -> Iterator[Record]:
    """A record for every length, number of paths and rule."""
    models = models_of(laws, vocab)
    whole, rng = Shape.paths(max(counts), max(lengths)), np.random.default_rng(0)
    chosen = draw_ratios(models, whole, first, rng)
    accepted: dict[tuple[int, int], dict[str, list[float]]] = {}
    ratios = []
    for number, seed in enumerate(model_seeds(texts, rng)):
        line = target_line(models(seed), whole.depth, rng)
        ratios.append(line_ratios(line))
        for length in lengths if number < walks else ():
            part = Line(line.target[:length], line.draft[:length], line.tokens[:length])
            for count in counts:
                here = accepted.setdefault((length, count), {name: [] for name in RULES})
                for name, rule in RULES.items():
                    here[name].append(length_along(rule, part, Shape.paths(count, length)))
    drafted = [tree_ratios(models(seed), whole, rng) for seed in model_seeds(trees, rng)]
    second = Ratios(np.array(ratios), np.array(drafted))
    for (length, count), values in accepted.items():
        known = second.of_paths(count, length)
        found = bound_of(chosen.of_paths(count, length), known, (length,))
        with np.errstate(divide="ignore"):
            parts = Sums.of(known, found.window).influences(np.log(np.array(found.cuts)))
        place = {"laws": laws, "vocab": vocab, "length": length, "paths": count}
        bound = {"bound": found.value, "bound_error": found.error, "cuts": found.cuts}
        by_rule = {name: np.array(mine) for name, mine in values.items()}
        for name, figures in compared(by_rule, (NESTED,)).items():
            yield {**place, "verifier": name, **figures, **bound, **over_bound(by_rule[name], *parts)}


def over_bound(accepted: FloatArray, texts: FloatArray, trees: FloatArray) -> Record:
    """Accepted length over the bound, and its standard error to first order.

    Parameters
    ----------
    accepted : array, shape (walks,)
        Accepted lengths, of the first texts.
    texts : array, shape (texts,)
        What each text adds to the bound; their mean is part of it.
    trees : array, shape (trees,)
        Likewise, of trees.
    """
    bound = texts.mean() + trees.mean()
    ratio = accepted.mean() / bound
    both, alone = accepted.size, texts.size - accepted.size
    variance = both * np.var(accepted / both - ratio * texts[:both] / texts.size, ddof=1)
    variance += alone * (ratio / texts.size) ** 2 * texts.var(ddof=1) + (ratio * standard_error(trees)) ** 2
    return {"ratio": float(ratio), "ratio_error": float(np.sqrt(variance) / bound)}


def tables(records: Sequence[Record]) -> list[TextTable]:
    """Rules by cells: lengths, lengths over the bound, and gains over the default."""
    place = PLACE | {"bound": lambda r: with_error(r["bound"], r["bound_error"])}
    shown = {
        "Mean accepted length": lambda r: with_error(r["accepted"], r["error"]),
        "Of the bound, in %": lambda r: with_error(100 * r["ratio"], 100 * r["ratio_error"], ".1f"),
        "Gain over the default": gain_over(NESTED, ".3f"),
    }
    return [pivot(title, records, place, verifier_of, show) for title, show in shown.items()]


CAUSAL_BOUND = Question("causal-bound", [causal_bound], ("laws", "vocab", "length", "paths", "verifier"), tables)

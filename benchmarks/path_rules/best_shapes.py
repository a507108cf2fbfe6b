"""Which tree to draft: the best shape of every rule for a budget of target positions and a cost per draft level.

A step takes a target pass, and so much of one for each level that is drafted.  Shapes are chosen by
`otspec.paths.best_shape` on some contexts and measured on as many others; all rules meet the same contexts, and gains
are of tokens in the time of a target pass, context by context.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from benchmarks.comparing import compared
from benchmarks.path_rules.grid import (
    NESTED,
    SHIPPED,
    TOKEN_WISE,
    Laws,
    Rules,
    Vocab,
    contexts_of,
    in_short,
    names_of,
    rules_of,
)
from benchmarks.questions import Out, Question, answer
from benchmarks.reporting import Record
from benchmarks.tables import with_error
from otspec.laws import FloatArray
from otspec.paths import Context, PathVerifier, PickRule, Traversal, best_shape, measure, shapes_within
from otspec.reporting.charts import SERIES, Axis, Chart, line_chart
from otspec.reporting.columns import NOTHING, Column, table
from otspec.reporting.console import numbers
from otspec.reporting.layers import words
from otspec.reporting.means import standard_error
from otspec.reporting.pictures import Picture, picture
from otspec.reporting.style import Look, looks
from otspec.reporting.tables import TextTable

RULES = (TOKEN_WISE, "block", "traversal", "pick then block", NESTED)
DEEPEST = 8
COARSE = (2, 3, 4, 8, 16, 32)
"""Numbers of paths that are tried for rules that are judged on drafted trees, which take longer."""

DRAWS, APART = 2, 1_000_000
"""Trees of a context for traversal, and how far apart their seeds are."""


def best_shapes(
    laws: Laws = "mixed,close,sharp,shipped",
    vocab: Vocab = 1000,
    budgets: Annotated[str, typer.Option(help="Drafted tokens at most, a list.")] = "8,16,32,64",
    level_cost: Annotated[float, typer.Option(help="Of a target pass, for each drafted level.")] = 0.05,
    contexts: Annotated[int, typer.Option(min=1, help="To choose on; as many more to measure on.")] = 60,
    rule: Rules = None,
    out: Out = None,
) -> None:
    """The best shape of every rule for a budget, chosen on some contexts and measured on others."""
    names, sizes, rules = names_of(laws, SHIPPED), numbers("--budgets", budgets), rule or RULES
    answer(BEST_SHAPES, (one for name in names for one in choose(name, vocab, sizes, level_cost, contexts, rules)), out)


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
    """Tokens in the time of a target pass, shape (contexts,)."""
    return (1.0 + lengths) / (1.0 + level_cost * depth)


def choose(
    laws: str, vocab: int, budgets: Sequence[int], level_cost: float, count: int, names: Sequence[str]
) -> Iterator[Record]:
    """A record for every rule and budget; gains are over token-wise transport, if that was measured before."""
    chosen_on, judged_on = contexts_of(laws, vocab, count), contexts_of(laws, vocab, count, count)
    rules = rules_of(names)
    for budget in budgets:
        measured: dict[str, FloatArray] = {}
        for name, rule in rules.items():
            best = best_shape(rule, redrawn(chosen_on, rule), budget, level_cost, candidates(rule, budget), DEEPEST)
            lengths = measure(rule, redrawn(judged_on, rule), best.branching).lengths.reshape(count, -1).mean(axis=1)
            measured[name] = rates(lengths, level_cost, len(best.branching))
            figures = compared(measured, (TOKEN_WISE,), "rate")[name]
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
                "accepted_error": standard_error(lengths),
                **figures,
            }


COLUMNS: Sequence[Column[Record]] = (
    Column("laws", lambda one: one["laws"], label=True),
    Column("budget", lambda one: str(one["budget"]), label=True),
    Column("rule", lambda one: one["verifier"], label=True),
    Column("best branching", lambda one: in_short(one["branching"]), label=True),
    Column("accepted", lambda one: with_error(one["accepted"], one["accepted_error"])),
    Column("rate", lambda one: with_error(one["rate"], one["error"])),
    Column(f"over {TOKEN_WISE}", lambda one: _gain(one)),
)


def _gain(record: Record) -> str:
    gain, error = record["gains"].get(TOKEN_WISE, (0.0, 0.0))
    return with_error(gain, error, sign="+") if gain else NOTHING


def tables(records: Sequence[Record]) -> list[TextTable]:
    """Best shape and rate, rules by budgets."""
    contexts, costs = (
        " or ".join(dict.fromkeys(f"{one[field]:g}" for one in records)) for field in ("contexts", "level_cost")
    )
    note = (
        f"Chosen on {contexts} contexts, measured on as many others, ± standard error. Rate: tokens in the time of a "
        f"target pass, a level of drafts costing {costs} of one."
    )
    return [table("The best shape of every rule", COLUMNS, records, note)]


def draw(records: Sequence[Record]) -> Picture:
    """Rates over budgets, each at its best shape, a chart for each kind of laws; the shapes of nested labels beside."""
    measured = {one["verifier"] for one in records}
    styles = {rule: look for rule, look in looks(dict.fromkeys([*RULES, *measured])).items() if rule in measured}
    by_laws = {
        name: [one for one in records if one["laws"] == name] for name in dict.fromkeys(r["laws"] for r in records)
    }
    note = "Means over contexts, with one standard error. Numbers above: the best shape of nested."
    return picture([_chart(name, mine, styles) for name, mine in by_laws.items()], styles, note=note)


def _chart(name: str, records: Sequence[Record], styles: dict[str, Look]) -> Chart:
    rows = [
        {
            SERIES: one["verifier"],
            "x": str(one["budget"]),
            "y": one["rate"],
            "low": one["rate"] - one["error"],
            "high": one["rate"] + one["error"],
        }
        for one in records
    ]
    budgets = Axis("drafted tokens at most", places=[str(at) for at in sorted({one["budget"] for one in records})])
    chart = line_chart(rows, replace(budgets, apart=0.6), Axis("tokens per target pass time"), styles, name)
    shapes = [
        {"x": str(one["budget"]), "y": one["rate"] + one["error"], "text": in_short(one["branching"])}
        for one in records
        if one["verifier"] == NESTED
    ]
    return chart + words(shapes, size=10, rise=8)


BEST_SHAPES = Question(
    "best-shapes", [best_shapes], ("laws", "vocab", "budget", "level_cost", "verifier"), tables, draw
)

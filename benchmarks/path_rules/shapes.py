"""Which rule verifies which tree best: every rule on every shape, at equal budgets of target positions.

Shapes are K paths from the root, paths behind a stem (delayed expansion [2602.16994]), n-ary trees and mixtures; a
budget is a number of drafted tokens, equal ones counted apart.  All rules and shapes meet the same contexts, and draw
the same tokens there.  Lengths are exact given what `otspec.paths.reach` draws: a text of the target's for rules that
pick a path, a drafted tree for the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
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
    verifier_of,
)
from benchmarks.path_rules.lengths import lengths_of
from benchmarks.questions import Out, Question, among, answer
from benchmarks.reporting import Record
from benchmarks.tables import pivot, with_error
from otspec.reporting.console import numbers
from otspec.reporting.tables import TextTable
from otspec.verification.trees.shape import Shape

RULES = (
    *("block", "token-wise rrs", TOKEN_WISE, "traversal", "layer"),
    *("greedy multi-path", "pick then block", "nested, sigma = 0", NESTED),
)
BASELINES = (TOKEN_WISE, "traversal", "pick then block")
"""What gains are over: one token at a time, from the leaves to the root, and picking level by level."""
LEVEL = 1.96
"""Standard errors within which the mean of many contexts is with 95 %."""
OF_BUDGET: dict[int, list[tuple[int, ...]]] = {
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


def shapes(
    laws: Laws = "mixed,close,sharp,shipped",
    vocab: Vocab = 1000,
    budgets: Annotated[str, typer.Option(help=f"Of {', '.join(map(str, OF_BUDGET))}, a list.")] = "16,32",
    trees: Annotated[int, typer.Option(min=1, help="Contexts.")] = 100,
    rule: Rules = None,
    out: Out = None,
) -> None:
    """Every rule on every shape of tree, at equal budgets."""
    among("budget", budgets.split(","), map(str, OF_BUDGET))
    cells = itertools.product(names_of(laws, SHIPPED), numbers("--budgets", budgets))
    measured = (one for name, budget in cells for one in measure(name, vocab, budget, trees, rule or RULES))
    answer(SHAPES, measured, out)


def measure(laws: str, vocab: int, budget: int, trees: int, names: Sequence[str]) -> Iterator[Record]:
    """A record for every shape and rule."""
    contexts, rules = contexts_of(laws, vocab, trees), rules_of(names)
    for branching in OF_BUDGET[budget]:
        lengths = {name: lengths_of(rule, contexts, branching) for name, rule in rules.items()}
        place = {
            "laws": laws,
            "vocab": int(contexts[0].text(1).target.shape[1]),
            "budget": budget,
            "branching": list(branching),
            "slots": Shape(branching).slots - 1,
            "trees": trees,
        }
        for name, figures in compared(lengths, BASELINES).items():
            yield {**place, "verifier": name, **figures}


PLACE = {
    "laws": lambda record: str(record["laws"]),
    "V": lambda record: str(record["vocab"]),
    "tokens": lambda record: str(record["slots"]),
    "branching": lambda record: in_short(record["branching"]),
}


def tables(records: Sequence[Record]) -> list[TextTable]:
    """Rules by shapes, and what nested labels gain."""
    note = "Mean accepted length ± half of its 95 % interval."
    lengths = pivot("Every rule on every shape", records, PLACE, verifier_of, _length, note)
    gains = [
        {**one, "over": f"over {base}", "gain": gain, "half": LEVEL * error}
        for one in records
        if one["verifier"] == NESTED
        for base, (gain, error) in one["gains"].items()
    ]
    note = "Tokens ± half of the 95 % interval, context by context."
    return [lengths, pivot("What nested labels gain", gains, PLACE, lambda r: str(r["over"]), _gain, note)]


def _length(record: Record) -> str:
    return with_error(record["accepted"], LEVEL * record["error"])


def _gain(record: Record) -> str:
    return with_error(record["gain"], record["half"], sign="+")


SHAPES = Question("shapes", [shapes], ("laws", "vocab", "budget", "branching", "verifier"), tables)

"""Whose fault is what nested labels leave: models in which the best labels can be computed, beside the causal bound.

The same law follows every prefix: a few classes of tokens of one p/q each, as a law of models has them on the mean, and
so many tokens in each that drafts do not repeat.  Then labels depend on the classes along a path alone, and the best
ones are a linear program (`docs/theory/best_labels.md`): labels are cut into steps, so that what is found is attained.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import numpy as np
import typer
from scipy.sparse import eye_array, kron

from benchmarks.path_rules.grid import NESTED, Laws, models_of, names_of
from benchmarks.questions import Out, Question, answer
from benchmarks.reporting import Record
from benchmarks.tables import with_error
from otspec.extras import require
from otspec.laws import FloatArray
from otspec.paths import Model, Models, Nested, PickRule, causal_bound
from otspec.reporting.console import numbers
from otspec.reporting.tables import TextTable
from otspec.verification.evaluation.walking import Line, length_along
from otspec.verification.trees.shape import Shape

POOLED = 300
"""Models that classes are taken from."""
SPREAD = 900
"""Tokens of all classes together."""
STEPS = 24
"""Of the labels."""
RULES = {NESTED: Nested(), "sigma = 1, 32 parts": Nested(sigma=1.0, parts=32)}


def best_labels(
    laws: Laws = "mixed,close,sharp,far",
    vocab: Annotated[int, typer.Option(min=2, help="Tokens of the laws that classes are taken from.")] = 1000,
    classes: Annotated[int, typer.Option(min=2, help="Classes of p/q.")] = 6,
    length: Annotated[int, typer.Option(min=1, help="L.")] = 4,
    paths: Annotated[str, typer.Option(help="K, a list.")] = "2,4",
    samples: Annotated[int, typer.Option(min=2, help="Texts and trees, for the bound.")] = 16_000,
    out: Out = None,
) -> None:
    """Accepted length of nested labels over that of the best labels, where drafts do not repeat."""
    each = ((name, count) for name in names_of(laws) for count in numbers("--paths", paths))
    answer(BEST_LABELS, (measure(name, vocab, classes, length, count, samples) for name, count in each), out)


def measure(laws: str, vocab: int, classes: int, length: int, count: int, samples: int) -> Record:
    """What rules and the best labels accept, exactly, and an estimate of the bound."""
    mass, ratio = classes_of(models_of(laws, vocab), classes)
    found = causal_bound(lambda seed: spread(mass, ratio), count, length, samples=samples)
    record = {"laws": laws, "classes": classes, "length": length, "paths": count, "ratio": ratio.tolist()}
    record |= {"best": most(mass, ratio, length, count), "bound": [found.value, found.error]}
    return record | {name: accepted(rule, mass, ratio, length, count) for name, rule in RULES.items()}


def accepted(rule: PickRule, mass: FloatArray, ratio: FloatArray, length: int, count: int) -> float:
    """Mean accepted length: tokens of a class are alike, so that one text stands for all of its classes."""
    model = spread(mass, ratio)
    p, q = (np.tile(law(()), (length, 1)) for law in (model.target, model.draft))
    each, first = mass * ratio, np.arange(mass.size) * (SPREAD // mass.size)
    texts = itertools.product(range(mass.size), repeat=length - 1)  # the sum over the last token is taken for each
    return sum(
        float(np.prod(each[list(text)])) * length_along(rule, Line(p, q, first[[*text, 0]]), Shape.paths(count, length))
        for text in texts
    )


def classes_of(models: Models, classes: int) -> tuple[FloatArray, FloatArray]:
    """Draft mass and mean p/q of classes of rising p/q, each but the last of half the mass that is left."""
    drawn = [(model.target(()), model.draft(())) for model in map(models, range(POOLED))]
    p, q = map(np.concatenate, zip(*drawn, strict=True))
    order = np.argsort(p / np.maximum(q, np.finfo(float).tiny))
    p, below = p[order] / POOLED, np.cumsum(q[order]) / POOLED
    edges = 1.0 - 0.5 ** np.arange(1, classes)
    number = np.searchsorted(edges, below)
    mass = np.bincount(number, weights=q[order] / POOLED, minlength=classes)
    return mass / mass.sum(), np.bincount(number, weights=p, minlength=classes) / mass


def spread(mass: FloatArray, ratio: FloatArray) -> Model:
    """The model, with as many tokens in each class."""
    q, p = (np.repeat(law / law.sum(), SPREAD // mass.size) * mass.size / SPREAD for law in (mass, mass * ratio))
    return Model(target=lambda prefix: p, draft=lambda prefix: q)


def most(mass: FloatArray, ratio: FloatArray, length: int, count: int, steps: int = STEPS) -> float:
    """Accepted tokens of the best labels of K paths of L tokens that do not repeat, of labels that are cut into steps.

    Parameters
    ----------
    mass, ratio : ndarray, shape (classes,)
        Draft mass of a class, and p/q of its tokens.
    length, count, steps : int
    """
    cp: Any = require("cvxpy")
    edges = np.arange(steps + 1) / steps
    won = steps * np.diff(edges**count)  # by a path whose label lies in a step
    chances = [np.ones(1)]
    for _ in range(length):
        chances.append(np.multiply.outer(chances[-1], mass).ravel())
    owned = cp.Variable((chances[-1].size, steps), nonneg=True)
    kept = [cp.Constant(np.ones(1)), *(cp.Variable(chance.size, nonneg=True) for chance in chances[1:])]
    rules = [owned.sum(axis=1) == chances[-1], owned.sum(axis=0) == np.full(steps, 1.0 / steps)]
    for above, here in itertools.pairwise(kept):
        rules.append(here <= kron(eye_array(above.size), (mass * ratio)[:, None]) @ above)
        rules.append(here <= kron(eye_array(here.size), np.ones((1, chances[-1].size // here.size))) @ (owned @ won))
    lengths = cp.Maximize(sum(here.sum() for here in kept[1:]))
    return float(cp.Problem(lengths, rules).solve(solver=cp.HIGHS))


def tables(records: Sequence[Record]) -> list[TextTable]:
    """Lengths, and of which share of the best each is."""

    def line(one: Record) -> Iterator[str]:
        yield from (one["laws"], str(one["classes"]), f"{one['length']}, {one['paths']}", f"{one['best']:.3f}")
        value, error = one["bound"]
        yield with_error(value, error, ".3f")
        yield from (f"{one[name]:.3f}: {100 * one[name] / one['best']:.1f}" for name in RULES)

    columns = ("laws", "classes", "L, K", "best labels", "causal bound", *(f"{name}: % of the best" for name in RULES))
    note = f"Best labels: of {STEPS} steps, attained. Accepted tokens, exact; the bound ± its standard error."
    lines = [tuple(line(one)) for one in records]
    return [TextTable("Best labels where drafts do not repeat", columns, lines, note, labels=3)]


BEST_LABELS = Question("best-labels", [best_labels], ("laws", "classes", "length", "paths"), tables)

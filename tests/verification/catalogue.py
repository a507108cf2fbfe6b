"""Every verifier of paths by name, the shapes of trees of which all drafts are listed, and draws beside their law."""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.stats import chisquare

from otspec import Greedy
from otspec.verification import (
    Block,
    GreedyMultiPath,
    Hierarchical,
    LayerVerification,
    Match,
    Nested,
    PathVerifier,
    PickByPlan,
    TokenWise,
    Traversal,
)
from otspec.verification.reference.enumeration import number_of_trees
from otspec.verification.rules.nested.nested import LabelVerifier
from otspec.verification.trees.shape import Shape
from tests.oracles import Floats, Ints
from tests.verification.models import FAMILIES

EXACT = 1e-12
LABELS: dict[str, LabelVerifier] = {
    "nested": Nested(sigma=0.0),
    "look-ahead": Nested(sigma=0.7, parts=3, grain=0.3),
    "greedy multi-path": GreedyMultiPath(),
}
VERIFIERS: dict[str, PathVerifier] = {
    **LABELS,
    "block": Block(),
    "traversal": Traversal(),
    "layer": LayerVerification(cache_size=5000),
    "token-wise interval": TokenWise("interval", cache_size=5000, exchangeable=True),
}
"""Of trees of i.i.d. drafts."""
SCORED = ("max_flow", "single", "naive", "kseq", "rrs")
"""Rules for one position that say what each draft gets, besides the interval rule."""
OTHERS: dict[str, PathVerifier] = {
    "hierarchical": Hierarchical(),
    "token-wise lp": TokenWise("lp", cache_size=5000, exchangeable=True),
    **{f"layer {rule}": LayerVerification(rule, cache_size=5000) for rule in SCORED},
}
"""What differs from one of these in the rule for a position alone, or in its name."""
ALL: dict[str, PathVerifier] = {
    **VERIFIERS,
    **OTHERS,
    "match": Match(),
    "pick by plan": PickByPlan(lambda q: Greedy(q, 2)),
}
LOOSE = {"token-wise lp": 1e-8, "layer max_flow": 1e-9}
"""The vertex of a linear program is feasible to 1e-9 only, and so is a flow."""
PATHS = ((2, (2, 1)), (3, (2, 1)), (2, (2, 1, 1)), (2, (3, 1)), (3, (3,)), (2, (1, 1, 1)))
TREES: tuple[tuple[int, tuple[int, ...]], ...] = ((3, (2, 2)), (2, (1, 2, 2)), (2, (2, 1, 2)), (2, (2, 3)))
MOST_LEAVES = 12


def shapes(vocab: int, most: int, exchangeable: bool = True) -> Iterator[tuple[int, ...]]:
    """All shapes of at most 3 levels and `MOST_LEAVES` leaves that have at most so many trees."""
    for depth in (1, 2, 3):
        for branching in itertools.product(range(1, MOST_LEAVES + 1), repeat=depth):
            if math.prod(branching) <= MOST_LEAVES and number_of_trees(vocab, Shape(branching), exchangeable) <= most:
                yield branching


def cases(name: str) -> Iterator[tuple[int, tuple[int, ...], str]]:
    """Size of the vocabulary, shape, and family of models, of whose trees all drafts are listed."""
    if name in OTHERS:
        few = PATHS[:4] if name == "token-wise lp" else (PATHS[1], PATHS[5], (2, (2, 2)), (2, (1, 2, 1)))
        yield from ((*case, family) for case, family in itertools.product(few, FAMILIES))
        return
    orders = VERIFIERS[name].exchangeable
    for number, family in enumerate(FAMILIES):  # each shape with every other family
        yield from ((*case, family) for case in PATHS[number % 2 :: 2])
        for vocab, branching in TREES[number % 2 :: 2]:
            if number_of_trees(vocab, Shape(branching), orders) <= 800:
                yield vocab, branching, family
    for vocab in (2, 3):
        for number, branching in enumerate(shapes(vocab, 30 if name in LABELS else 20, orders)):
            yield vocab, branching, FAMILIES[number % len(FAMILIES)]


def follows(counts: Ints | Sequence[int], law: Floats) -> bool:
    """Whether counted draws have a law, by a chi-square test at 1e-4, and none of them is impossible."""
    seen, expected = np.ravel(counts), np.ravel(law) / np.sum(law) * np.sum(counts)
    if seen[expected <= 1e-12 * seen.sum()].any():
        return False
    often = expected >= 5
    seen, expected = (np.append(part[often], part[~often].sum()) for part in (seen, expected))
    kept = expected > 1e-6
    return kept.sum() < 2 or bool(
        chisquare(seen[kept], expected[kept] / expected[kept].sum() * seen[kept].sum()).pvalue > 1e-4
    )

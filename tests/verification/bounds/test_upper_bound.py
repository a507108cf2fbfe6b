from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from scipy.optimize import linprog

from otspec import IID, Problem, ProblemError, optimum
from otspec.paths import (
    Block,
    LayerVerification,
    Model,
    Nested,
    PathVerifier,
    TokenWise,
    Traversal,
    bound,
    path_law,
    tree_bound,
    tree_law,
)
from otspec.verification.reference.enumeration import prefixes
from otspec.verification.trees.tree import Prefix
from tests.verification.models import FAMILIES, model

SOLVED = 1e-7
"""HiGHS keeps the constraints within this."""

VERIFIERS: tuple[PathVerifier, ...] = (
    Block(),
    Traversal(),
    LayerVerification(remember=1000),
    TokenWise(remember=1000),
    Nested(0.0),
    Nested(),
)


def _antichains(vocab: int, length: int, prefix: Prefix = ()) -> list[list[Prefix]]:
    """All sets of prefixes at or below one, none of which begins another."""
    if len(prefix) == length:
        return [[], [prefix]]
    below = [_antichains(vocab, length, (*prefix, x)) for x in range(vocab)]
    return [[prefix], *(list(itertools.chain(*parts)) for parts in itertools.product(*below))]


def _by_all_constraints(laws: Model, vocab: int, length: int, limit: Callable[[list[Prefix]], float]) -> float:
    """The bound's linear program with every constraint written out: `limit` says what the sum over an antichain is."""
    number = {prefix: i for i, prefix in enumerate(prefixes(vocab, length))}
    rows, limits = [], []
    for prefix in number:
        if prefix:
            row = np.zeros(len(number))
            row[number[prefix]] = 1.0
            row[number[prefix[:-1]]] = -np.asarray(laws.target(prefix[:-1]))[prefix[-1]]
            rows.append(row)
            limits.append(0.0)
    for chain in _antichains(vocab, length):
        row = np.zeros(len(number))
        row[[number[prefix] for prefix in chain]] = 1.0
        rows.append(row)
        limits.append(limit(chain))
    found = linprog(-np.ones(len(number)), A_ub=np.array(rows), b_ub=limits, bounds=(0, None), method="highs")
    assert found.fun is not None
    return -found.fun - 1


def _paths_meet(laws: Model, chain: list[Prefix], count: int) -> float:
    """P(one of so many draft paths begins with a prefix of a set)."""
    one = sum(
        math.prod(float(np.asarray(laws.draft(prefix[:at]))[token]) for at, token in enumerate(prefix))
        for prefix in chain
    )
    return 1 - max(1 - one, 0.0) ** count


def test_cutting_planes_find_the_optimum_of_the_whole_program() -> None:
    for shape, family in itertools.product([(2, 2, 2), (2, 2, 4), (3, 2, 2), (2, 3, 2)], FAMILIES):
        vocab, length, count = shape
        laws = model(family, vocab, 7)
        whole = _by_all_constraints(laws, vocab, length, partial(_paths_meet, laws, count=count))
        assert bound(laws, count, length) == pytest.approx(whole, abs=10 * SOLVED), (shape, family)


def test_one_step_and_one_path() -> None:
    for family in FAMILIES:
        laws = model(family, 4, 2)
        problem = Problem(np.asarray(laws.target(())), IID(np.asarray(laws.draft(())), 3))
        assert bound(laws, 3, 1) == pytest.approx(optimum(problem).bound, abs=SOLVED), family
        small = model(family, 3, 2)
        block = path_law(Block(), small, 1, 2).mean_accepted
        assert bound(small, 1, 2) == pytest.approx(block, abs=SOLVED), family


def test_no_verifier_exceeds_it() -> None:
    larger = itertools.product([(3, 2, 2), (2, 3, 2), (2, 2, 3)], FAMILIES[::3])
    for shape, family in (*(((2, 2, 2), family) for family in FAMILIES), *larger):
        vocab, length, count = shape
        laws = model(family, vocab, 13)
        limit = bound(laws, count, length)
        for verifier in VERIFIERS:
            accepted = path_law(verifier, laws, count, length).mean_accepted
            assert accepted <= limit + SOLVED, (shape, family, verifier)


def test_nested_labels_come_close() -> None:
    ratios = []
    for seed in range(12):
        laws = model("tiny", 2, seed)
        ratios.append(path_law(Nested(0.0), laws, 2, 3).mean_accepted / bound(laws, 2, 3))
    assert np.mean(ratios) > 0.98
    assert min(ratios) > 0.93


def test_large_models_are_refused() -> None:
    with pytest.raises(ProblemError, match="make 10101 prefixes, more than 2000"):
        bound(model("tiny", 100), 2, 2)


# --- branching trees ----------------------------------------------------------------------------------------------


def _meets(laws: Model, chain: list[Prefix], branching: tuple[int, ...], prefix: Prefix = ()) -> float:
    """P(a tree drafted below a prefix meets a set)."""
    if prefix in chain:
        return 1.0
    if len(prefix) == len(branching):
        return 0.0
    law = np.asarray(laws.draft(prefix))
    one = sum(float(law[x]) * _meets(laws, chain, branching, (*prefix, x)) for x in range(law.size))
    return float(1 - max(1 - one, 0.0) ** branching[len(prefix)])


def test_cutting_planes_find_the_optimum_for_branching_trees() -> None:
    shapes = [(2, (2, 2)), (2, (1, 3)), (3, (2, 2)), (2, (2, 2, 2)), (2, (1, 2, 2)), (2, (3, 1, 2))]
    for (vocab, branching), family in itertools.product(shapes, FAMILIES[::2]):
        laws = model(family, vocab, 7)
        whole = _by_all_constraints(laws, vocab, len(branching), partial(_meets, laws, branching=branching))
        excess = tree_bound(laws, branching) - whole
        assert -10 * SOLVED <= excess <= (1e-5 if sum(b > 1 for b in branching) > 1 else 10 * SOLVED), (
            branching,
            family,
        )


def test_no_verifier_exceeds_it_on_branching_trees() -> None:
    larger = itertools.product([(2, (2, 2)), (3, (1, 2)), (2, (1, 2, 1))], FAMILIES[::3])
    for (vocab, branching), family in (*(((2, (1, 3)), family) for family in FAMILIES), *larger):
        laws = model(family, vocab, 13)
        limit = tree_bound(laws, branching)
        for verifier in VERIFIERS:
            accepted = tree_law(verifier, laws, branching).mean_accepted
            assert accepted <= limit + SOLVED, (branching, family, verifier)


def test_nested_labels_come_close_on_branching_trees() -> None:
    ratios = []
    for branching, seed in itertools.product([(2, 2), (1, 2, 2)], range(6)):
        laws = model("tiny", 2, seed)
        ratios.append(tree_law(Nested(0.0), laws, branching).mean_accepted / tree_bound(laws, branching))
    assert np.mean(ratios) > 0.98
    assert min(ratios) > 0.93

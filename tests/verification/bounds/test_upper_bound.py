import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from scipy.optimize import linprog

from otspec import IID, Problem, ProblemError, optimum
from otspec.paths import Block, Model, Nested, bound, path_law, tree_bound, tree_law
from otspec.verification.reference.enumeration import prefixes
from otspec.verification.trees.tree import Prefix
from tests.verification.catalogue import VERIFIERS
from tests.verification.models import FAMILIES, model

SOLVED = 1e-7
"""HiGHS keeps the constraints within this."""


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


def test_one_step_and_one_path() -> None:
    for family in FAMILIES:
        laws = model(family, 4, 2)
        problem = Problem(np.asarray(laws.target(())), IID(np.asarray(laws.draft(())), 3))
        assert bound(laws, 3, 1) == pytest.approx(optimum(problem).bound, abs=SOLVED), family
        small = model(family, 3, 2)
        block = path_law(Block(), small, 1, 2).mean_accepted
        assert bound(small, 1, 2) == pytest.approx(block, abs=SOLVED), family


def test_large_models_are_refused() -> None:
    with pytest.raises(ProblemError, match="make 10101 prefixes, more than 2000"):
        bound(model("tiny", 100), 2, 2)


def _meets(laws: Model, chain: list[Prefix], branching: tuple[int, ...], prefix: Prefix = ()) -> float:
    """P(a tree drafted below a prefix meets a set)."""
    if prefix in chain:
        return 1.0
    if len(prefix) == len(branching):
        return 0.0
    law = np.asarray(laws.draft(prefix))
    one = sum(float(law[x]) * _meets(laws, chain, branching, (*prefix, x)) for x in range(law.size))
    return float(1 - max(1 - one, 0.0) ** branching[len(prefix)])


PATHS = [(2, (2, 1)), (2, (4, 1)), (3, (2, 1)), (2, (2, 1, 1))]
BRANCHING = [(2, (2, 2)), (2, (1, 3)), (3, (2, 2)), (2, (2, 2, 2)), (2, (1, 2, 2)), (2, (3, 1, 2))]


def test_cutting_planes_find_the_optimum_of_the_whole_program() -> None:
    cases = *itertools.product(PATHS, FAMILIES), *itertools.product(BRANCHING, FAMILIES[::2])
    for (vocab, branching), family in cases:
        laws = model(family, vocab, 7)
        whole = _by_all_constraints(laws, vocab, len(branching), partial(_meets, laws, branching=branching))
        excess = tree_bound(laws, branching) - whole
        most = 1e-5 if sum(b > 1 for b in branching) > 1 else 10 * SOLVED
        assert -10 * SOLVED <= excess <= most, (branching, family)


def test_no_verifier_exceeds_it() -> None:
    larger = [(3, (2, 1)), (2, (2, 1, 1)), (2, (3, 1)), (2, (2, 2)), (3, (1, 2)), (2, (1, 2, 1))]
    cases = *itertools.product([(2, (2, 1)), (2, (1, 3))], FAMILIES), *itertools.product(larger, FAMILIES[::3])
    for (vocab, branching), family in cases:
        laws = model(family, vocab, 13)
        limit = tree_bound(laws, branching)
        for verifier in (*VERIFIERS.values(), Nested()):
            accepted = tree_law(verifier, laws, branching).mean_accepted
            assert accepted <= limit + SOLVED, (branching, family, verifier)


@pytest.mark.parametrize("branchings", [[(2, 1, 1)], [(2, 2), (1, 2, 2)]], ids=["paths", "branching"])
def test_nested_labels_come_close(branchings: list[tuple[int, ...]]) -> None:
    ratios = []
    for branching, seed in itertools.product(branchings, range(12 // len(branchings))):
        laws = model("tiny", 2, seed)
        ratios.append(tree_law(Nested(0.0), laws, branching).mean_accepted / tree_bound(laws, branching))
    assert np.mean(ratios) > 0.98
    assert min(ratios) > 0.93

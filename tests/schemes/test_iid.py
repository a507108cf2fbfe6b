import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from otspec import IID, ProblemError
from otspec.schemes.iid import power_increments
from tests.each import each
from tests.instances import Q4
from tests.oracles import Floats, all_tuples, members

LAWS: dict[str, Floats] = {
    "plain": Q4,
    "zeros": np.array([0.0, 0.5, 0.0, 0.3, 0.2]),
    "point": np.array([0.0, 1.0, 0.0]),
    "one-token": np.ones(1),
    "ties": np.full(5, 0.2),
    "tail": np.array([1e-300, 1 - 1e-12, 1e-12]),
}


every_law = each(q=LAWS, n=(1, 2, 3))


@each(wrong=(0, -1, 2.0, True, "2", None))
def test_n_is_an_integer_of_at_least_one(wrong: Any) -> None:
    with pytest.raises(ProblemError, match="pass an integer >= 1"):
        IID(Q4, wrong)


def test_takes_a_numpy_integer_for_n() -> None:
    scheme = IID(Q4, np.int64(3))  # type: ignore[arg-type]  # what an array of settings holds
    assert type(scheme.n) is int


def test_names_the_law_that_is_wrong() -> None:
    with pytest.raises(ProblemError, match=r"q sums to 0\.9"):
        IID(Q4 * 0.9, 2)


@every_law
def test_prob_is_a_product(q: Floats, n: int) -> None:
    scheme = IID(q, n)
    tuples = all_tuples(scheme)
    expected = [math.prod(q[token] for token in drafts) for drafts in tuples]
    assert_allclose(scheme.prob(tuples), expected, rtol=1e-15)
    assert scheme.prob(tuples[0]).shape == ()
    assert scheme.prob(tuples).sum() == pytest.approx(1.0, abs=1e-14)


def test_support_size_may_be_any_integer() -> None:
    assert IID(np.full(100_000, 1e-5), 20).support_size() == 10**100


@every_law
def test_reachable(q: Floats, n: int) -> None:
    assert_array_equal(IID(q, n).reachable(), np.flatnonzero(q > 0))


def test_compact_renumbers_and_adds_a_token_never_drafted() -> None:
    compact = IID(LAWS["zeros"], 2).compact()
    assert_allclose(compact.q, [0.5, 0.3, 0.2, 0.0], rtol=1e-15)
    assert compact.n == 2


def test_hit_chain_keeps_tiny_masses() -> None:
    chain = IID(np.array([1e-300, 1.0]), 4).hit_chain(np.array([0, 1]))
    assert_allclose(chain, [0.0, 4e-300, 1.0], rtol=1e-14)


@every_law
def test_priority_law_is_the_law_of_the_best_placed_draft(q: Floats, n: int) -> None:
    scheme = IID(q, n)
    tuples = all_tuples(scheme)
    probabilities = scheme.prob(tuples)
    for order in itertools.permutations(range(q.size)):
        rank = np.argsort(order)
        best = np.array(order)[rank[tuples].min(axis=1)]
        expected = np.bincount(best, weights=probabilities, minlength=q.size)
        # Relative, because all terms are positive; 1e-290 forgives where a product underflows in one of both.
        assert_allclose(scheme.priority_law(np.array(order)), expected, rtol=1e-14, atol=1e-290)


@each(n=(1, 2, 3, 7))
def test_power_increments_are_exact_where_a_difference_of_powers_is_not(n: int) -> None:
    q = np.array([1e-25, 0.3, 1e-20, 0.1, 1e-18, 0.35, 0.0, 1e-30, 0.25])
    below, expected = Fraction(0), []
    for step in map(Fraction, q.tolist()):
        expected.append(float((below + step) ** n - below**n))
        below += step
    assert_allclose(power_increments(q, n), expected, rtol=1e-13, atol=0)
    # The trap this guards against: the literal formula gives 0 for tokens below an ulp of what came before.
    literal = np.diff(np.concatenate(([0.0], np.cumsum(q))) ** n)
    assert literal[2] == 0 < expected[2]


def test_prefix_order_is_by_ratio_with_unreachable_tokens_first() -> None:
    scheme = IID(np.array([0.5, 0.0, 0.25, 0.25]), 2)
    order = scheme.prefix_order(np.array([0.1, 0.2, 0.3, 0.4]))
    assert_array_equal(order, [1, 3, 2, 0])


def test_draft_sets_stand_in_lexicographic_order() -> None:
    sets = IID(np.full(4, 0.25), 3).draft_sets()
    rows = [tuple(row) for row in sets.tokens.tolist()]
    assert rows == sorted(rows)
    assert len(rows) == 4 + 6 + 4


def test_members_of_a_code() -> None:
    # The oracle's own coding, on which the hit function tests rest.
    assert_array_equal(members(0b1101, 4), [0, 2, 3])

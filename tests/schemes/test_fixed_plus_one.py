"""Greedy and top-n drafts."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from otspec import Greedy, Problem, ProblemError, TopK, optimum
from tests.instances import P4, Q4
from tests.oracles import Floats, all_tuples, set_masses

both = pytest.mark.parametrize("scheme", [Greedy, TopK])


def test_greedy_fixes_the_likeliest_and_draws_from_the_rest() -> None:
    scheme = Greedy(Q4, 3)
    assert_array_equal(scheme.fixed, [3, 2])
    assert_allclose(scheme.last, [1 / 3, 2 / 3, 0, 0], rtol=1e-15)
    assert_allclose(scheme.prob(np.array([[3, 2, 0], [2, 3, 0], [3, 2, 2]])), [1 / 3, 0, 0], rtol=1e-15)


def test_one_greedy_draft_is_a_draft_from_q() -> None:
    scheme = Greedy(Q4, 1)
    assert_array_equal(scheme.fixed, [])
    assert_array_equal(scheme.last, Q4)
    assert scheme.prefix_order(P4) is not None


def test_top_k_is_deterministic() -> None:
    scheme = TopK(Q4, 3)
    assert_array_equal(scheme.sample(np.random.default_rng(0), 5), [[3, 2, 1]] * 5)
    assert scheme.support_size() == 1
    assert_array_equal(scheme.compact().reachable(), [0, 1, 2])


@both
def test_the_lowest_ids_win_a_tie(scheme: Any) -> None:
    assert_array_equal(scheme(np.full(5, 0.2), 3).fixed, [0, 1])
    assert_array_equal(scheme(np.array([0.1, 0.2, 0.3, 0.2, 0.2]), 3).fixed, [2, 1])


@both
@pytest.mark.parametrize(
    ("q", "n", "message"),
    [
        ([0.5, 0.5, 0.0], 3, r"n is 3, and q has only 2 tokens of probability above 0; .* Draft n = 2"),
        ([0.5, 0.5], 0, "n is 0; pass an integer >= 1"),
        ([0.5, 0.4], 1, r"q sums to 0\.9"),
    ],
)
def test_refuses(scheme: Any, q: Any, n: int, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        scheme(q, n)


@both
def test_as_many_drafts_as_tokens_cover_all(scheme: Any) -> None:
    best = optimum(Problem(P4, scheme(Q4, 4)))
    assert best.acceptance == pytest.approx(1.0, abs=1e-15)


@both
def test_takes_a_list(scheme: Any) -> None:
    assert scheme(Q4.tolist(), 2).vocab == 4


def test_the_rest_of_q_is_renormalised_by_its_own_sum() -> None:
    # 1 minus the likeliest would be 0 here.
    scheme = Greedy(np.array([1.0, 1e-300, 3e-300]), 2)
    assert_allclose(scheme.last, [0, 0.25, 0.75], rtol=1e-15)


def spechub_law(q: Floats) -> dict[tuple[int, int], float]:
    """SpecHub's pairs: (i, hub) with probability q_i, (hub, i) with q_hub q_i / (1 - q_hub) [sun2024spechub]."""
    hub = int(q.argmax())
    pairs = {}
    for token in range(q.size):
        if token != hub:
            pairs[token, hub] = float(q[token])
            pairs[hub, token] = float(q[hub] * q[token] / (1 - q[hub]))
    return pairs


def test_two_greedy_drafts_are_those_of_spechub_up_to_their_order() -> None:
    q = np.array([0.3, 0.1, 0.4, 0.2])
    expected: dict[tuple[int, ...], float] = {}
    for pair, probability in spechub_law(q).items():
        expected[tuple(sorted(pair))] = expected.get(tuple(sorted(pair)), 0.0) + probability
    assert set_masses(Greedy(q, 2)) == pytest.approx(expected, rel=1e-14)


def test_top_k_is_a_table_of_one_row() -> None:
    scheme = TopK(Q4, 2)
    tuples = all_tuples(scheme)
    assert_array_equal(tuples[scheme.prob(tuples) > 0], [[3, 2]])
    assert optimum(Problem(P4, scheme)).acceptance == pytest.approx(P4[2] + P4[3], abs=1e-15)

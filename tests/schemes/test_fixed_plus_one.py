"""Greedy and top-n drafts, and pairs with a hub: laws and optima that are known in closed form."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from otspec import Greedy, HubPairs, Problem, TopK, optimum
from tests.instances import P4, Q4

both = pytest.mark.parametrize("scheme", [Greedy, TopK])


def test_what_is_fixed_and_what_is_drawn() -> None:
    scheme, top = Greedy(Q4, 3), TopK(Q4, 3)
    assert_array_equal(scheme.fixed, [3, 2])
    assert_allclose(scheme.last, [1 / 3, 2 / 3, 0, 0], rtol=1e-15)
    assert_array_equal(Greedy(Q4, 1).last, Q4)
    assert_array_equal(top.sample(np.random.default_rng(0), 5), [[3, 2, 1]] * 5)
    assert top.support_size() == 1
    # The rest of q is divided by its own sum: 1 minus the likeliest would be 0 here.
    assert_allclose(Greedy(np.array([1.0, 1e-300, 3e-300]), 2).last, [0, 0.25, 0.75], rtol=1e-15)
    assert HubPairs(np.array([0.2, 0.4, 0.4])).hub == 1
    assert_array_equal(HubPairs(np.array([0.0, 1.0, 0.0])).sample(np.random.default_rng(0)), [1, 1])


@both
def test_the_lowest_ids_win_a_tie_and_as_many_drafts_as_tokens_cover_all(scheme: type[Greedy | TopK]) -> None:
    assert_array_equal(scheme(np.full(5, 0.2), 3).fixed, [0, 1])
    assert_array_equal(scheme(np.array([0.1, 0.2, 0.3, 0.2, 0.2]), 3).fixed, [2, 1])
    assert optimum(Problem(P4, scheme(Q4, 4))).acceptance == pytest.approx(1.0, abs=1e-15)


def test_the_other_token_keeps_its_law_beside_a_hub_that_is_nearly_certain() -> None:
    # 1 - q(hub) is 0 in float64; the pairs (hub, i) share out what lies beside the hub all the same.
    scheme = HubPairs(np.array([1e-300, 1.0, 3e-300]))
    assert_allclose(scheme.prob(np.array([[1, 0], [1, 2]])), [0.25, 0.75], rtol=1e-14)
    assert_allclose(scheme.prob(np.array([[0, 1], [2, 1]])), [1e-300, 3e-300], rtol=1e-14)


def test_optima_in_closed_form() -> None:
    assert optimum(Problem(P4, TopK(Q4, 2))).acceptance == pytest.approx(P4[2] + P4[3], abs=1e-15)
    # p(hub), and what a single draft from the law of the other token can serve of the rest.
    p, q = np.array([0.3, 0.1, 0.6]), np.array([0.5, 0.3, 0.2])
    best = optimum(Problem(p, HubPairs(q)))
    assert best.acceptance == pytest.approx(0.3 + min(0.1, 0.6) + min(0.6, 0.4), abs=1e-15)

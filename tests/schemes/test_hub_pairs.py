import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from otspec import HubPairs, Problem, ProblemError, optimum
from tests.instances import Q4

ZEROS = np.array([0.0, 0.5, 0.0, 0.3, 0.2])
ROUNDING = 1e-15


def test_the_law_of_the_pairs() -> None:
    scheme = HubPairs(np.array([0.5, 0.3, 0.2]))
    assert scheme.hub == 0
    assert scheme.n == 2
    expected = {(1, 0): 0.3, (2, 0): 0.2, (0, 1): 0.5 * 0.6, (0, 2): 0.5 * 0.4}
    for pair in ((a, b) for a in range(3) for b in range(3)):
        assert scheme.prob(np.array(pair)) == pytest.approx(expected.get(pair, 0.0), abs=ROUNDING)


def test_the_hub_is_the_first_of_equals() -> None:
    assert HubPairs(np.array([0.2, 0.4, 0.4])).hub == 1


def test_both_drafts_are_the_only_token_there_is() -> None:
    scheme = HubPairs(np.array([0.0, 1.0, 0.0]))
    assert_array_equal(scheme.sample(np.random.default_rng(0)), [1, 1])
    assert_array_equal(scheme.support().drafts, [[1, 1]])
    assert_array_equal(scheme.support().probabilities, [1.0])


def test_the_other_token_keeps_its_law_beside_a_hub_that_is_nearly_certain() -> None:
    # 1 - q(hub) is 0 in float64; the pairs (hub, i) share out what lies beside the hub all the same.
    scheme = HubPairs(np.array([1e-300, 1.0, 3e-300]))
    assert_allclose(scheme.prob(np.array([[1, 0], [1, 2]])), [0.25, 0.75], rtol=1e-14)
    assert_allclose(scheme.prob(np.array([[0, 1], [2, 1]])), [1e-300, 3e-300], rtol=1e-14)


def test_refuses_what_is_no_law() -> None:
    with pytest.raises(ProblemError, match=r"q sums to 0\.9"):
        HubPairs(Q4 * 0.9)


def test_compact_keeps_the_pairs() -> None:
    compact = HubPairs(ZEROS).compact()
    assert_allclose(compact.q, [0.5, 0.3, 0.2, 0.0], rtol=1e-15)


def test_the_optimum_in_closed_form() -> None:
    # p(hub), and what a single draft from the law of the other token can serve of the rest.
    p, q = np.array([0.3, 0.1, 0.6]), np.array([0.5, 0.3, 0.2])
    best = optimum(Problem(p, HubPairs(q)))
    assert best.acceptance == pytest.approx(0.3 + min(0.1, 0.6) + min(0.6, 0.4), abs=1e-15)

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from otspec import IID, Independent, Problem, ProblemError, optimum
from otspec.schemes.iid import power_increments
from otspec.schemes.independent import product_increments
from tests.instances import P4, Q4

LAWS = np.array([[0.5, 0.5, 0.0, 0.0], [0.25, 0.0, 0.75, 0.0]])


@pytest.mark.parametrize(
    ("qs", "message"),
    [
        ([0.5, 0.5], r"qs has shape \(2,\); n laws over V tokens have shape \(n, V\)"),
        (np.empty((0, 3)), r"qs has shape \(0, 3\)"),
        ([[0.5, 0.5], [0.5, 0.4]], r"qs\[1\] sums to 0\.9"),
        ([[0.5, 0.5], [1.5, -0.5]], r"qs\[1\]\[1\] is -0\.5"),
        ([[0.5, 0.5], [1.0]], "qs is not an array of real numbers"),
    ],
)
def test_refuses(qs: Any, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        Independent(qs)


def test_sizes_come_from_the_laws() -> None:
    scheme = Independent(LAWS)
    assert (scheme.n, scheme.vocab) == (2, 4)
    assert_array_equal(scheme.reachable(), [0, 1, 2])
    assert scheme.support_size() == 4
    assert_array_equal(scheme.compact().qs, LAWS)


def test_support_size_may_be_any_integer() -> None:
    assert Independent(np.full((20, 1000), 1e-3)).support_size() == 10**60


def test_prob_takes_each_draft_from_its_own_law() -> None:
    scheme = Independent(LAWS)
    assert_allclose(scheme.prob(np.array([[0, 2], [2, 0], [1, 0]])), [0.375, 0.0, 0.125], rtol=1e-15)


def test_equal_laws_are_the_iid_scheme() -> None:
    same, iid = Independent(np.stack([Q4] * 3)), IID(Q4, 3)
    order = np.array([2, 0, 3, 1])
    assert_allclose(same.hit_chain(order), iid.hit_chain(order), rtol=1e-14)
    assert_allclose(same.priority_law(order), iid.priority_law(order), rtol=1e-14)
    assert_allclose(same.draft_sets().mass, iid.draft_sets().mass, rtol=1e-13)
    assert same.prefix_order(P4) is None


def test_product_increments_are_exact_where_a_difference_of_products_is_not() -> None:
    q = np.array([1e-25, 0.3, 1e-20, 0.1, 1e-18, 0.35, 0.0, 1e-30, 0.25])
    qs = np.stack((q, q[::-1], np.roll(q, 2)))
    below, expected = [Fraction(0)] * 3, []
    for column in qs.T:
        above = [b + Fraction(x) for b, x in zip(below, column.tolist(), strict=True)]
        expected.append(float(above[0] * above[1] * above[2] - below[0] * below[1] * below[2]))
        below = above
    assert_allclose(product_increments(qs), expected, rtol=1e-13, atol=0)
    assert_allclose(product_increments(np.stack((q, q))), power_increments(q, 2), rtol=1e-15, atol=0)
    literal = np.diff(np.concatenate(([0.0], np.cumsum(qs, axis=1).prod(axis=0))))
    assert literal[4] == 0 < expected[4]  # the trap that this guards against


def test_prefixes_by_the_larger_law_are_not_optimal() -> None:
    p, qs = np.array([0.1, 0.6, 0.1, 0.2]), np.array([[0, 0.5, 0.25, 0.25], [0.15, 0.2, 0.45, 0.2]])
    problem = Problem(p, Independent(qs))
    order = np.argsort(-p / qs.max(axis=0))
    assert (np.diff((p / qs.max(axis=0))[order]) < 0).all()  # no tie to break in another way
    best_prefix = (problem.scheme.hit_chain(order) + 1 - np.append(0.0, np.cumsum(p[order]))).min()
    assert best_prefix - optimum(problem).bound == pytest.approx(0.0125)

"""Drafts without replacement, beyond what is enumerated, and sums of powers and products that do not cancel."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from otspec import IID, Independent, Problem, ProblemError, WithoutReplacement, optimum
from otspec.kernels.arrivals import Nodes, hit_increments
from otspec.schemes.iid import power_increments
from otspec.schemes.independent import product_increments
from tests.each import each
from tests.instances import P4, Q4, peaked_problem
from tests.oracles import all_tuples
from tests.schemes.test_every_scheme import EXACT

TINY = np.array([1e-25, 0.3, 1e-20, 0.1, 1e-18, 0.35, 0.0, 1e-30, 0.25])


@each(n=(4, 5))
def test_many_drafts_of_few_tokens(n: int) -> None:
    rng = np.random.default_rng(n)
    scheme = WithoutReplacement(rng.dirichlet(np.full(6, 0.5)), n)
    order = rng.permutation(6)
    rank, law = np.argsort(order), [Fraction(0)] * 6
    exact = [Fraction(mass) / sum(map(Fraction, scheme.q.tolist())) for mass in scheme.q.tolist()]
    for drafts in all_tuples(scheme)[scheme.prob(all_tuples(scheme)) > 0].tolist():
        law[min(drafts, key=rank.__getitem__)] += EXACT["without replacement"][1](tuple(drafts), exact)
    assert_allclose(scheme.priority_law(order), [float(mass) for mass in law], rtol=1e-13, atol=0)


@each(n=(2, 3, 4, 8, 20))
def test_a_thousand_tokens_agree_with_a_finer_grid(n: int) -> None:
    problem = peaked_problem(1000, 1)
    q = problem.scheme.priority_law(np.arange(1000))  # of one draft: q itself
    scheme = WithoutReplacement(q, n)
    order = scheme.prefix_order(problem.p)
    fine = Nodes.of(q, n, per_octave=3 * scheme.nodes.per_octave + 1, tail=1e-25)
    expected = np.empty(1000)
    expected[order] = hit_increments(q[order], scheme.heavy[order], n, fine)
    assert_allclose(scheme.priority_law(order), expected, rtol=1e-13, atol=0)
    assert expected.sum() == pytest.approx(1.0, abs=1e-13)


def test_a_vocabulary_of_128256_tokens() -> None:
    problem = peaked_problem(128_256, 1)
    q = problem.scheme.priority_law(np.arange(problem.vocab))
    law = WithoutReplacement(q, 4).priority_law(np.argsort(-problem.p / q))
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    assert np.count_nonzero(law) == problem.vocab - 3  # whoever is among the last three is never the best of four


def test_refuses_what_leaves_the_range_of_float64() -> None:
    scheme = WithoutReplacement(np.full(100_000, 1e-5), 1000)
    with pytest.raises(ProblemError, match="n is 1000 of 100000 tokens, too many for float64"):
        scheme.hit_chain(np.arange(100_000))


def test_sample_draws_the_smallest_floats_when_nothing_else_is_left_and_in_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drafts = WithoutReplacement(np.array([5e-324, 1.0, 0.0]), 2).sample(np.random.default_rng(0), 50)
    assert_array_equal(drafts, np.tile([1, 0], (50, 1)))
    whole = WithoutReplacement(P4, 3).sample(np.random.default_rng(0), 100)
    monkeypatch.setattr("otspec.schemes.without_replacement.CHUNK", 12)
    assert_array_equal(WithoutReplacement(P4, 3).sample(np.random.default_rng(0), 100), whole)


# --- drafts that are drawn apart


@each(n=(1, 2, 3, 7))
def test_increments_are_exact_where_a_difference_of_powers_is_not(n: int) -> None:
    qs = np.stack([np.roll(TINY, 2 * draft) for draft in range(n)])
    below, increments = [Fraction(0)] * n, []
    for column in qs.T:
        above = [b + Fraction(x) for b, x in zip(below, column.tolist(), strict=True)]
        increments.append(float(math.prod(above) - math.prod(below)))
        below = above
    assert_allclose(product_increments(qs), increments, rtol=1e-13, atol=0)
    power, mass = [], Fraction(0)
    for step in map(Fraction, TINY.tolist()):
        power.append(float((mass + step) ** n - mass**n))
        mass += step
    assert_allclose(power_increments(TINY, n), power, rtol=1e-13, atol=0)
    # The trap this guards against: the literal formula gives 0 for tokens below an ulp of what came before.
    assert np.diff(np.concatenate(([0.0], np.cumsum(TINY))) ** n)[2] == 0 < power[2]


def test_equal_laws_are_the_iid_scheme() -> None:
    same, iid, order = Independent(np.stack([Q4] * 3)), IID(Q4, 3), np.array([2, 0, 3, 1])
    assert_allclose(same.hit_chain(order), iid.hit_chain(order), rtol=1e-14)
    assert_allclose(same.draft_sets().mass, iid.draft_sets().mass, rtol=1e-13)
    assert same.prefix_order(P4) is None
    assert_allclose(IID([1e-300, 1.0], 4).hit_chain(np.array([0, 1])), [0.0, 4e-300, 1.0], rtol=1e-14)
    assert_array_equal(IID([0.5, 0.0, 0.25, 0.25], 2).prefix_order(np.array([0.1, 0.2, 0.3, 0.4])), [1, 3, 2, 0])


def test_prefixes_by_the_larger_law_are_not_optimal() -> None:
    p, qs = np.array([0.1, 0.6, 0.1, 0.2]), np.array([[0, 0.5, 0.25, 0.25], [0.15, 0.2, 0.45, 0.2]])
    problem = Problem(p, Independent(qs))
    order = np.argsort(-p / qs.max(axis=0))
    assert (np.diff((p / qs.max(axis=0))[order]) < 0).all()  # no tie to break in another way
    best_prefix = (problem.scheme.hit_chain(order) + 1 - np.append(0.0, np.cumsum(p[order]))).min()
    assert best_prefix - optimum(problem).bound == pytest.approx(0.0125)

"""Draft schemes beyond what is enumerated: laws in closed form, large vocabularies, tables, and sets of drafts."""

import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from otspec import IID, ProblemError, Table, WithoutReplacement
from otspec.kernels.arrivals import Nodes, hit_increments
from otspec.schemes import DraftSets
from otspec.schemes.draft_sets import PAD, pick_law, pick_weights
from otspec.schemes.iid import power_increments
from otspec.schemes.independent import product_increments
from tests.each import each
from tests.instances import P4, peaked_problem
from tests.refusals import check_refused

TINY = np.array([1e-25, 0.3, 1e-20, 0.1, 1e-18, 0.35, 0.0, 1e-30, 0.25])


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


# --- tables, lists of which nothing else is known, and sets of drafts


DRAFTS = np.array([[0, 1], [1, 0], [3, 3], [1, 4], [2, 2]])
LAW = np.array([0.4, 0.1, 0.3, 0.2, 0.0])
TABLE = Table(DRAFTS, LAW, 6)
"""Correlated drafts over six tokens: 2 stands in a row of probability 0 only, 5 in none."""


REFUSED: list[tuple[Any, Any, Any, str]] = [
    ([0, 1], [0.5, 0.5], 6, r"drafts have shape \(2,\)"),
    (np.empty((0, 2), dtype=np.int64), [], 6, r"drafts have shape \(0, 2\)"),
    ([[0.5, 1.0]], [1.0], 6, "token ids are integers"),
    ([[0, 6]], [1.0], 6, "hold 6"),
    ([[0, -1]], [1.0], 6, "hold -1"),
    ([[0, 1], [1, 0]], [1.0], 6, "2 tuples of drafts have 1 probabilities"),
    ([[0, 1]], [0.9], 6, "probabilities sums to 0.9"),
    ([[2, 1], [0, 1], [2, 1]], [0.5, 0.25, 0.25], 6, r"the tuple \[2, 1\] appears twice"),
    (DRAFTS, LAW, 2.5, r"vocab is 2\.5; pass an integer"),
    ([[0, 1], [0]], [0.5, 0.5], 3, "drafts are ragged"),
]


def test_what_is_no_table_is_refused() -> None:
    check_refused((partial(Table, *inputs), message) for *inputs, message in REFUSED)


def test_rows_are_told_in_any_shape_and_in_their_order() -> None:
    request = np.array([[[0, 1], [0, 0]], [[2, 2], [3, 3]], [[4, 1], [1, 4]]])
    assert_allclose(TABLE.prob(request), [[0.4, 0.0], [0.0, 0.3], [0.0, 0.2]], rtol=1e-15)
    assert_array_equal(TABLE.support().drafts, DRAFTS[:4])
    assert TABLE.support_size() == 4
    # With order 1, 3, 0, ...: the tuples (0, 1), (1, 0), (1, 4) give token 1, and (3, 3) gives token 3.
    assert_allclose(TABLE.priority_law(np.array([1, 3, 0, 4, 2, 5])), [0, 0.7, 0, 0.3, 0, 0], rtol=0, atol=1e-15)
    assert TABLE.prefix_order(np.full(6, 1 / 6)) is None
    assert_array_equal(TABLE.draft_sets().tokens, [[0, 1], [1, 4], [3, -1]])
    assert_allclose(TABLE.draft_sets().mass, [0.5, 0.2, 0.3], rtol=1e-15)
    assert_array_equal(TABLE.compact().drafts, [[0, 1], [1, 0], [2, 2], [1, 3]])


# --- sets of drafts


def test_find_finds_every_set_and_long_tuples_stay_ascending() -> None:
    sets = IID(np.full(6, 1 / 6), 3).draft_sets()
    for row, tokens in enumerate(sets.tokens):
        assert sets.find(np.resize(tokens[tokens != PAD][::-1], 3)) == row
    # Beyond 16 drafts numpy's default sort is no longer stable, and the tokens would come out shuffled.
    long = DraftSets.of_support(np.repeat(np.arange(20), 2)[None, :], np.ones(1))
    assert_array_equal(long.tokens[0], [*range(20), *[PAD] * 20])


def test_pick_weights_are_proportional_uniform_where_nothing_is_accepted_and_add_up_over_sets() -> None:
    sets = IID(np.array([0.5, 0.5]), 2).draft_sets()  # {0}, {0, 1}, {1}, of masses 1/4, 1/2, 1/4
    assert_allclose(pick_weights(sets, np.array([0.1, 0.3, 0.1, 0.0])), [1, 0.75, 0.25, 1], rtol=1e-15)
    assert_allclose(pick_weights(sets, np.zeros(4)), [1, 0.5, 0.5, 1], rtol=1e-15)
    assert_allclose(pick_law(sets, np.array([1, 0.75, 0.25, 1]), 3), [0.625, 0.375, 0.0], rtol=1e-15)

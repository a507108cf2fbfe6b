from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from otspec import Problem, ProblemError, Systematic, optimum
from otspec.laws import sum_by
from otspec.schemes import CircularArcs
from otspec.schemes.systematic import TURN, lay_out, shuffled
from tests.each import each
from tests.instances import P4, Q4
from tests.oracles import Floats


def inclusion(scheme: CircularArcs) -> Floats:
    """Probability that each token is drafted, from the tuples."""
    drafts, probabilities = scheme.support()
    return sum_by(drafts.reshape(-1), np.repeat(probabilities, scheme.n), scheme.vocab)


def written_out(q: Floats, n: int) -> Floats:
    """min(1, c q) with sum n, by bisection of c."""
    low, high = 1.0, 1.0
    while np.minimum(1, high * q).sum() < n:
        high *= 2
        assert high < 1e300
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(1, middle * q).sum() < n else (low, middle)
    return np.minimum(1, high * q)


def splitmix64(token: int) -> int:
    """The generator's output number `token`, seeded with 0, in integers of any length."""
    z = (token + 1) * 0x9E3779B97F4A7C15 % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


@each(concentration=(0.05, 0.3, 1.0, 30.0), n=(1, 2, 3, 5, 8))
def test_tokens_are_drafted_in_proportion_to_q_up_to_always(n: int, concentration: float) -> None:
    q = np.random.default_rng(n).dirichlet(np.full(40, concentration))
    scheme = Systematic(q, n)
    assert scheme.n == n
    assert_allclose(inclusion(scheme), written_out(q, n), rtol=0, atol=1e-12)


@each(n=(2, 3, 5))
def test_drafts_are_distinct_and_their_probabilities_add_up_exactly(n: int) -> None:
    drafts, probabilities = Systematic(np.random.default_rng(0).dirichlet(np.ones(30)), n).support()
    assert (np.diff(np.sort(drafts, axis=1), axis=1) > 0).all()
    assert probabilities.sum() == 1
    assert_array_equal(probabilities * TURN, np.rint(probabilities * TURN))
    assert len(drafts) <= 30


def test_known_answer() -> None:
    # Lengths 1/2, 1/2, 1/4, 3/4 over two turns; token 3 crosses the start.
    scheme = lay_out(np.array([0.25, 0.25, 0.125, 0.375]), 2, np.array([0, 2, 3, 1]))
    drafts, probabilities = scheme.support()
    assert_array_equal(drafts, [[0, 3], [2, 1], [3, 1]])
    assert_array_equal(probabilities, [0.5, 0.25, 0.25])
    assert_array_equal(scheme.prob(np.array([[0, 3], [3, 0], [3, 1], [0, 1]])), [0.5, 0, 0.25, 0])
    assert [scheme.segment(row) for row in drafts] == [0, 1, 2]


def test_a_token_of_a_whole_turn_is_drafted_always_and_first() -> None:
    scheme = lay_out(np.array([0.1, 0.8, 0.1]), 2, np.arange(3))
    assert_array_equal(scheme.always, [1])
    assert_array_equal(scheme.support().drafts, [[1, 0], [1, 2]])


def test_as_many_drafts_as_tokens_are_all_drafted_always() -> None:
    scheme = Systematic(Q4, 4)
    assert_array_equal(scheme.always, [3, 2, 1, 0])
    assert scheme.turns == 0
    assert_array_equal(scheme.support().probabilities, [1.0])
    assert optimum(Problem(P4, scheme)).acceptance == pytest.approx(1.0, abs=1e-15)


@each(n=(2, 4, 7))
def test_inclusion_probabilities_close_to_1_do_not_lap_themselves(n: int) -> None:
    # All but one token have inclusion probability within 1e-9 of 1, on either side of it.
    rng = np.random.default_rng(n)
    q = np.append(1 + rng.normal(scale=1e-9, size=n), 1e-9)
    scheme = Systematic(q / q.sum(), n)
    assert np.diff(scheme.ends, prepend=0).max(initial=0) <= TURN
    assert inclusion(scheme).max() <= 1
    assert_allclose(inclusion(scheme), written_out(q / q.sum(), n), rtol=0, atol=1e-8)


@each(vocab=(1000, 50_000))
def test_a_long_tail_is_laid_out_within_rounding(vocab: int) -> None:
    q = np.random.default_rng(0).permutation(1.0 / np.arange(1, vocab + 1) ** 2)
    q /= q.sum()
    scheme = Systematic(q, 4)
    assert scheme.ends[-1] == scheme.turns * TURN
    lengths = np.diff(scheme.ends, prepend=0)
    assert lengths.min() > 0
    assert lengths.max() <= TURN
    assert_allclose(inclusion(scheme), written_out(q, 4), rtol=0, atol=1e-13)


def test_the_layout_is_the_same_everywhere() -> None:
    # Drafter and verifier may run in different places: the order must never change.
    assert_array_equal(shuffled(8), [2, 4, 6, 5, 1, 7, 0, 3])
    assert_array_equal(shuffled(1000), sorted(range(1000), key=splitmix64))


def test_compact_keeps_the_layout() -> None:
    q = np.array([0.0, 0.3, 0.0, 0.3, 0.2, 0.2])
    scheme = Systematic(q, 2)
    compact = scheme.compact()
    assert compact.vocab == 5
    assert_array_equal(compact.ends, scheme.ends)
    assert_array_equal(scheme.reachable()[compact.support().drafts], scheme.support().drafts)


@pytest.mark.parametrize(
    ("q", "n", "message"),
    [
        ([0.5, 0.5, 0.0], 3, r"n is 3, and q has only 2 tokens of probability above 0; .* Draft n = 2"),
        ([0.5, 0.5], 0, "n is 0; pass an integer >= 1"),
        ([0.5, 0.4], 1, r"q sums to 0\.9"),
        (np.full(2000, 5e-4), 1024, "n is 1024; systematic drafts are at most 1023"),
    ],
)
def test_refuses(q: Any, n: int, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        Systematic(q, n)


def test_refuses_drafts_that_meet_nowhere() -> None:
    scheme = lay_out(np.array([0.25, 0.25, 0.125, 0.375]), 2, np.array([0, 2, 3, 1]))
    with pytest.raises(ProblemError, match=r"drafts \[1, 2\] have probability 0, in this order"):
        scheme.segment(np.array([1, 2]))

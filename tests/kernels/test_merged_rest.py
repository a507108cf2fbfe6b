"""A law is split into what can be drafted and a rest, and the token of the rest is drawn in proportion."""

import numpy as np
import pytest
from scipy.special import softmax

from otspec.kernels.merged_rest import BLOCK, NONE, split_laws, split_scores
from otspec.laws import BoolArray, FloatArray, IntArray

RNG = np.random.default_rng(0)


def _split(laws: FloatArray, wanted: BoolArray, columns: IntArray, uniform: FloatArray) -> tuple[FloatArray, IntArray]:
    target, drawn = np.empty((len(laws), len(columns) + 1)), np.empty(len(laws), np.int64)
    split_laws(laws.copy(), wanted, columns, uniform, target, drawn)
    return target, drawn


def test_each_token_of_the_rest_has_its_share_of_the_uniform_numbers() -> None:
    vocab, columns = 2 * BLOCK + 5, np.array([1, BLOCK])
    law = np.zeros(vocab)
    law[[0, 1, 7, BLOCK, BLOCK + 3, vocab - 1]] = 0.1, 0.3, 0.2, 0.1, 0.2, 0.1
    uniform = (np.arange(600) + 0.5) / 600
    drawn = _split(np.tile(law, (600, 1)), np.ones(600, np.bool_), columns, uniform)[1]
    tokens, counts = np.unique(drawn, return_counts=True)
    assert tokens.tolist() == [0, 7, BLOCK + 3, vocab - 1]
    assert counts.tolist() == [100, 200, 200, 100]


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2.0**-53])
def test_no_token_without_probability_is_drawn(uniform: float) -> None:
    """Tails of 1e-300, sums that round, zeros at both ends, and blocks of zeros."""
    laws = np.zeros((50, 4 * BLOCK))
    for law in laws:
        law[RNG.integers(2 * BLOCK, size=9)] = RNG.choice([1e-300, 0.1, 1 / 3, 1e-17], 9)
    drawn = _split(laws, np.ones(50, np.bool_), np.array([4 * BLOCK - 1]), np.full(50, uniform))[1]
    assert (laws[np.arange(50), drawn] > 0).all()


def test_a_law_that_is_none_stays_none() -> None:
    laws = np.array([[np.nan, 0.5, 0.5], [0.0, 1.0, 0.0]])
    target, drawn = _split(laws, np.ones(2, np.bool_), np.array([1]), np.full(2, 0.5))
    assert np.isnan(target[0, 1])
    assert target[1].tolist() == [1.0, 0.0]
    assert ((drawn >= 0) & (drawn < 3)).all()


@pytest.mark.parametrize("narrow", [False, True])
def test_scores_are_split_as_their_softmax_is(narrow: bool) -> None:
    """Nothing is drafted after some nodes; no score, scores far apart, and beyond those with powers of e."""
    scores = RNG.normal(500.0, scale=9.0, size=(6, 3 * BLOCK + 5)).astype(np.float32)
    scores[0, ::7], scores[1, :-2] = -np.inf, -1e30
    bits = (scores.view(np.uint32) >> 16).astype(np.uint16)
    if narrow:
        scores = (bits.astype(np.uint32) << 16).view(np.float32)
    laws = softmax(scores.astype(np.float64), axis=1)
    wanted, columns, uniform = np.arange(6) % 4 != 3, np.arange(0, 3 * BLOCK, 5), RNG.random(6)
    target, drawn = np.empty((6, columns.size + 1)), np.empty(6, np.int64)
    split_scores(bits if narrow else scores, wanted, columns, uniform, target, drawn)
    expected = _split(laws, wanted, columns, uniform)
    np.testing.assert_allclose(target, expected[0], rtol=1e-12, atol=1e-307)
    np.testing.assert_array_equal(drawn, expected[1])
    np.testing.assert_allclose(target[wanted, :-1], laws[np.ix_(wanted, columns)], rtol=1e-12, atol=1e-307)
    np.testing.assert_allclose(target.sum(axis=1), 1.0, rtol=1e-14)
    assert (drawn[3], *target[3, [0, -1]]) == (NONE, 0.0, 1.0)


def test_scores_that_make_no_law_stay_none() -> None:
    scores = np.zeros((6, 4), np.float32)
    scores[0, 1], scores[1, 1], scores[2], scores[3, 1], scores[4] = np.nan, -np.nan, -np.inf, np.inf, [-9, -7, -8, -7]
    target, drawn = np.empty((6, 2)), np.empty(6, np.int64)
    split_scores(scores, np.ones(6, np.bool_), np.array([1]), np.full(6, 0.5), target, drawn)
    assert np.isnan(target).tolist() == [[True, True]] * 4 + [[False, False]] * 2
    np.testing.assert_allclose(target[4:, 0], [softmax([-9.0, -7, -8, -7])[1], 0.25])
    assert ((drawn >= 0) & (drawn < 4)).all()

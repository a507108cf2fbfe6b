"""A law is split into what can be drafted and a rest, and the token of the rest is drawn in proportion."""

import numpy as np
import pytest

from otspec.kernels.merged_rest import BLOCK, split_laws
from otspec.laws import FloatArray, IntArray

RNG = np.random.default_rng(0)


def _split(
    laws: FloatArray, nodes: IntArray, columns: IntArray, uniform: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    drafted, rest, drawn = np.empty((len(nodes), len(columns))), np.empty(len(laws)), np.empty(len(laws), np.int64)
    split_laws(laws.copy(), nodes, columns, uniform, drafted, rest, drawn)
    return drafted, rest, drawn


def test_each_token_of_the_rest_has_its_share_of_the_uniform_numbers() -> None:
    vocab, columns = 2 * BLOCK + 5, np.array([1, BLOCK])
    law = np.zeros(vocab)
    law[[0, 1, 7, BLOCK, BLOCK + 3, vocab - 1]] = 0.1, 0.3, 0.2, 0.1, 0.2, 0.1
    uniform = (np.arange(600) + 0.5) / 600
    drawn = _split(np.tile(law, (600, 1)), np.arange(600), columns, uniform)[2]
    tokens, counts = np.unique(drawn, return_counts=True)
    assert tokens.tolist() == [0, 7, BLOCK + 3, vocab - 1]
    assert counts.tolist() == [100, 200, 200, 100]


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2.0**-53])
def test_no_token_without_probability_is_drawn(uniform: float) -> None:
    """Tails of 1e-300, sums that round, zeros at both ends, and blocks of zeros."""
    laws = np.zeros((50, 4 * BLOCK))
    for law in laws:
        law[RNG.integers(2 * BLOCK, size=9)] = RNG.choice([1e-300, 0.1, 1 / 3, 1e-17], 9)
    drawn = _split(laws, np.arange(50), np.array([4 * BLOCK - 1]), np.full(50, uniform))[2]
    assert (laws[np.arange(50), drawn] > 0).all()


def test_a_law_that_is_none_stays_none() -> None:
    laws = np.array([[np.nan, 0.5, 0.5], [0.0, 1.0, 0.0]])
    _, rest, drawn = _split(laws, np.array([0, 1]), np.array([1]), np.full(2, 0.5))
    assert np.isnan(rest[0])
    assert rest[1] == 0
    assert ((drawn >= 0) & (drawn < 3)).all()

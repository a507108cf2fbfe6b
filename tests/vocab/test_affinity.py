import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from otspec.vocab import (
    Affinity,
    affinity,
    affinity_from_counts,
    affinity_from_factor,
    affinity_from_matrix,
    matrices,
    rdk,
)
from tests.each import each
from tests.instances import PAIRS
from tests.laws import Pair
from tests.oracles import Floats


def everything(matrix: Affinity) -> Floats:
    return matrix.rows(0, matrix.tokens.size)


def softmax(values: Floats, tau: float) -> Floats:
    """Equation (2), token by token."""
    rows = []
    for row in values:
        weights = [np.exp((value - max(row)) / tau) for value in row]
        rows.append([weight / sum(weights) for weight in weights])
    return np.array(rows)


def random_covariance(rng: np.random.Generator, vocab: int, share: float = 1.0) -> Floats:
    factor = rng.normal(size=(vocab, 3)) * rng.exponential(size=(vocab, 1))
    kept = rng.random((vocab, vocab)) < share
    return factor @ factor.T * (kept & kept.T)


@each(tau=(1e-3, 0.3, 1.0, 50.0), share=(0.0, 0.3, 1.0))
def test_sparse_and_dense_are_equation_2(tau: float, share: float) -> None:
    rng = np.random.default_rng([int(10 * share), int(1000 * tau)])
    for _ in range(10):
        vocab = int(rng.integers(1, 9))
        covariance = random_covariance(rng, vocab, share)
        q = rng.dirichlet(np.full(vocab, 0.3), 4)
        wanted = softmax(covariance, tau)
        for given in (covariance, sparse.csr_array(covariance), sparse.coo_matrix(covariance)):
            matrix = affinity(given, tau)
            np.testing.assert_allclose(everything(matrix), wanted, rtol=1e-11, atol=1e-16)
            np.testing.assert_allclose(rdk(q, matrix), q @ wanted, rtol=1e-11, atol=1e-16)
            assert rdk(q, matrix).min() >= 0


@each(tau=(1e-3, 0.3, 1.0, 50.0))
def test_a_factor_is_its_covariance(tau: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrices, "BLOCK_CELLS", 20)  # several blocks, and tokens between them that are not needed
    rng = np.random.default_rng(3)
    factor = rng.normal(size=(9, 2))
    q = np.where(rng.random((3, 9)) < 0.4, rng.random((3, 9)), 0.0) + np.eye(9)[[1, 4, 8]]
    q /= q.sum(axis=1, keepdims=True)
    wanted = softmax(factor @ factor.T, tau)
    np.testing.assert_allclose(rdk(q, affinity_from_factor(factor, tau)), q @ wanted, rtol=1e-12, atol=1e-300)
    some = np.array([8, 1, 4])
    part = affinity_from_factor(factor, tau, tokens=some)
    np.testing.assert_allclose(everything(part), wanted[some], rtol=1e-12)
    inside = q[:, some] / q[:, some].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(rdk(q, part), inside @ wanted[some], rtol=1e-12)


def test_samples_have_the_factor_that_the_documentation_gives() -> None:
    samples = np.random.default_rng(4).normal(size=(6, 5))
    factor = (samples - samples.mean(axis=0)).T / np.sqrt(len(samples) - 1)
    np.testing.assert_allclose(
        everything(affinity_from_factor(factor, 0.7)), softmax(np.cov(samples.T), 0.7), rtol=1e-12
    )


@each(tau=(0.2, 1.0, 3.0))
def test_counts_are_raised_to_a_power_and_stay_sparse(tau: float) -> None:
    rng = np.random.default_rng(5)
    counts = rng.poisson(0.7, (7, 7)) + np.eye(7)
    wanted = counts ** (1 / tau) / (counts ** (1 / tau)).sum(axis=1, keepdims=True)
    dense, stored = affinity_from_counts(counts, tau), affinity_from_counts(sparse.csc_array(counts), tau)
    np.testing.assert_allclose(everything(dense), wanted, rtol=1e-12)
    np.testing.assert_allclose(everything(stored), wanted, rtol=1e-12)
    assert isinstance(stored, matrices.Stored)
    assert stored.matrix.nnz == np.count_nonzero(counts)
    q = rng.dirichlet(np.ones(7))
    np.testing.assert_allclose(rdk(q, stored), rdk(q, dense), rtol=1e-12)


def test_counts_of_any_size_do_not_overflow() -> None:
    counts = np.array([[1e300, 1e299], [1e-300, 3e-300]])
    for given in (counts, sparse.csr_array(counts)):
        np.testing.assert_allclose(everything(affinity_from_counts(given)), [[10 / 11, 1 / 11], [0.25, 0.75]])
        np.testing.assert_allclose(everything(affinity_from_counts(given, 1e-3)), np.eye(2), atol=1e-100)
    counts = np.array([[1e308, 1e308], [1e308, 0.0]])  # whose sums overflow
    for given in (counts, sparse.csr_array(counts)):
        np.testing.assert_allclose(everything(affinity_from_counts(given)), [[0.5, 0.5], [1.0, 0.0]], rtol=1e-12)


@pytest.mark.parametrize(
    ("factor", "tau", "wanted"),
    [
        ([[1e200], [1.0]], 1.0, [[1, 0], [1, 0]]),
        ([[1e200], [-1e200]], 1e300, [[1, 0], [0, 1]]),
        ([[1e200], [1.0], [-1.0]], 1.0, [[1, 0, 0], [1, 0, 0], [0, 1 / (1 + math.e**2), 1 / (1 + math.e**-2)]]),
        ([[1e200], [1e200]], 1e-300, [[0.5, 0.5], [0.5, 0.5]]),
        ([[1e308, -1e308], [1e308, 1e308]], 1.0, [[1, 0], [0, 1]]),
        ([[1e-200], [3e-200]], 1e-300, [[0.5, 0.5], [0.5, 0.5]]),
        (
            [[1e-150], [2e-150]],
            1e-300,
            [[1 / (1 + math.e), 1 / (1 + 1 / math.e)], [1 / (1 + math.e**2), 1 / (1 + math.e**-2)]],
        ),
        ([[0.0], [0.0]], 1.0, [[0.5, 0.5], [0.5, 0.5]]),
    ],
)
def test_a_factor_of_any_size_does_not_overflow(factor: list[list[float]], tau: float, wanted: Any) -> None:
    matrix = affinity_from_factor(factor, tau)
    np.testing.assert_allclose(everything(matrix), wanted, rtol=1e-9)
    np.testing.assert_allclose(everything(matrix.nearest(5)), wanted, rtol=1e-9)
    assert np.isfinite(rdk(np.full(len(factor), 1 / len(factor)), matrix)).all()


def test_covariances_of_any_size_do_not_overflow() -> None:
    covariance = np.array([[1e308, -1e308], [-1e308, -1e308]])
    for given in (covariance, sparse.csr_array(covariance)):
        np.testing.assert_array_equal(everything(affinity(given, 1e-300)), [[1, 0], [0.5, 0.5]])
    alone = sparse.csr_array((np.array([-1e308, 1e308]), (np.array([0, 1]), np.array([0, 0]))), shape=(2, 2))
    np.testing.assert_array_equal(everything(affinity(alone, 1e-300)), [[0, 1], [1, 0]])


@pytest.mark.parametrize("sparsely", [False, True])
def test_extreme_temperatures_are_argmax_and_uniform(sparsely: bool) -> None:
    rng = np.random.default_rng(6)
    covariance = random_covariance(rng, 6) + 5 * np.eye(6)
    given = sparse.csr_array(covariance) if sparsely else covariance
    q = rng.dirichlet(np.ones(6))
    cold = everything(affinity(given, 1e-300))
    np.testing.assert_array_equal(cold, np.eye(6)[covariance.argmax(axis=1)])
    np.testing.assert_allclose(rdk(q, affinity(given, 1e300)), np.full(6, 1 / 6), rtol=1e-14)


@pytest.mark.parametrize(
    "covariance",
    [
        np.array([[1e5, -1e5, 0.0], [-1e5, -1e5, -1e5], [0.0, 0.0, 0.0]]),
        np.array([[-1e3, -1e3 + 1, -1e3 + 2], [1e-12, 0.0, -1e-12], [700.0, 710.0, 0.0]]),
        np.array([[0.0, -40.0, 0.0], [0.0, -40.0, 0.0], [0.0, -40.0, 0.0]]),
    ],
    ids=["huge", "shifted", "a column that all rows lower"],
)
def test_hostile_covariances(covariance: Floats) -> None:
    wanted = softmax(covariance, 1.0)
    for given in (covariance, sparse.csr_array(covariance)):
        matrix = affinity(given)
        np.testing.assert_allclose(everything(matrix), wanted, rtol=1e-12, atol=1e-16)
        np.testing.assert_allclose(rdk(np.full(3, 1 / 3), matrix), wanted.mean(axis=0), rtol=1e-12, atol=1e-16)


def test_small_covariances_keep_their_digits_in_a_sparse_matrix() -> None:
    vocab = 1000
    covariance = sparse.csr_array((np.array([3e-13]), (np.array([2]), np.array([5]))), shape=(vocab, vocab))
    change = affinity(covariance).change  # type: ignore[attr-defined]  # of the sparse form
    assert change.toarray()[2, 5] == pytest.approx(3e-13, rel=1e-12)


def test_minus_infinity_rules_tokens_out() -> None:
    covariance = np.zeros((3, 3))
    covariance[:, 1] = -np.inf
    np.testing.assert_array_equal(everything(affinity(covariance)), [[0.5, 0.0, 0.5]] * 3)


@each(pair=PAIRS)
def test_redistributes_the_law_on_the_tokens_with_a_row(pair: Pair) -> None:
    """M^T q' in exact arithmetic, from rational rows."""
    _, q = pair
    rng = np.random.default_rng(7)
    likely = int(q.argmax())
    tokens = np.array([token for token in range(q.size) if token == likely or rng.random() < 0.6])
    weights = rng.integers(1, 9, (tokens.size, q.size))
    mass = sum(Fraction(q[token]) for token in tokens)
    shares = [
        [Fraction(q[i]) / mass / int(row.sum()) * int(a) for a in row] for i, row in zip(tokens, weights, strict=True)
    ]
    wanted = [sum(column) for column in zip(*shares, strict=True)]
    rows = weights / weights.sum(axis=1, keepdims=True)
    for given in (rows, sparse.csr_array(rows)):
        moved = rdk(q, affinity_from_matrix(given, tokens=tokens))
        np.testing.assert_allclose(moved, np.array(wanted, dtype=np.float64), rtol=1e-13)


@pytest.mark.parametrize(
    "make",
    [affinity, lambda given: affinity(sparse.csr_array(given)), affinity_from_factor, affinity_from_counts],
    ids=["dense", "sparse", "factor", "counts"],
)
def test_nearest_keeps_the_largest_entries_and_the_totals(make: Callable[[Floats], Affinity]) -> None:
    given = np.random.default_rng(8).gamma(0.5, size=(7, 7))
    full = everything(make(given))
    for count in (1, 3, 7, 100):
        wanted = np.zeros_like(full)
        for i, row in enumerate(full):
            kept = sorted(range(7), key=lambda j: (-row[j], j))[:count]
            wanted[i, kept] = row[kept] / row[kept].sum()
        nearest = make(given).nearest(count)
        np.testing.assert_allclose(everything(nearest), wanted, rtol=1e-13)
        assert isinstance(nearest, matrices.Stored)
        assert nearest.matrix.nnz <= 7 * count


def test_a_callers_matrix_is_left_alone_and_not_kept() -> None:
    twice = sparse.csr_array((np.array([0.5, 0.5, 1.0]), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))
    affinity_from_matrix(twice)
    assert twice.nnz == 3
    mine = np.eye(2)
    checked = affinity_from_matrix(mine)
    mine[:] = 7.0
    np.testing.assert_array_equal(rdk([0.25, 0.75], checked), [0.25, 0.75])

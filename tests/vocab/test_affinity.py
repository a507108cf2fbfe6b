from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from otspec import ProblemError
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
from tests.laws import Pair
from tests.oracles import Floats
from tests.vocab.pairs import PAIRS


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


@pytest.mark.parametrize(
    ("factor", "tau", "wanted"),
    [
        ([[1e200], [1.0]], 1.0, [[1, 0], [1, 0]]),
        ([[1e200], [-1e200]], 1e300, [[1, 0], [0, 1]]),
        ([[1e200], [1.0], [-1.0]], 1.0, [[1, 0, 0], [1, 0, 0], [0, 1 / (1 + np.e**2), 1 / (1 + np.e**-2)]]),
        ([[1e200], [1e200]], 1e-300, [[0.5, 0.5], [0.5, 0.5]]),
        ([[1e308, -1e308], [1e308, 1e308]], 1.0, [[1, 0], [0, 1]]),
        ([[1e-200], [3e-200]], 1e-300, [[0.5, 0.5], [0.5, 0.5]]),
        ([[1e-150], [2e-150]], 1e-300, [[1 / (1 + np.e), 1 / (1 + 1 / np.e)], [1 / (1 + np.e**2), 1 / (1 + np.e**-2)]]),
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


def test_sums_of_counts_may_overflow() -> None:
    counts = np.array([[1e308, 1e308], [1e308, 0.0]])
    for given in (counts, sparse.csr_array(counts)):
        np.testing.assert_allclose(
            everything(affinity_from_counts(given)), np.array([[0.5, 0.5], [1.0, 0.0]]), rtol=1e-12
        )
        with pytest.raises(ProblemError, match="row 0 of affinity sums to inf"):
            affinity_from_matrix(given)


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
    wanted = [
        sum(
            Fraction(q[i]) / mass * Fraction(int(row[j]), int(row.sum()))
            for i, row in zip(tokens, weights, strict=True)
        )
        for j in range(q.size)
    ]
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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: affinity([[1.0, 2.0]]), "covariance has 1 rows and 2 columns; say in tokens"),
        (lambda: affinity([[1.0, 2.0]], tokens=[0, 1]), "tokens name 2 rows, and covariance has 1"),
        (lambda: affinity([[1.0, 2.0]], tokens=[2]), "tokens holds 2"),
        (lambda: affinity([[1.0, np.nan]], tokens=[0]), "covariance holds nan"),
        (lambda: affinity([[1.0, np.inf]], tokens=[0]), "covariance holds inf"),
        (lambda: affinity([[-np.inf, -np.inf]], tokens=[0]), "row 0 of covariance is -inf throughout"),
        (lambda: affinity(sparse.csr_array([[1.0, -np.inf]]), tokens=[0]), "covariance holds -inf"),
        (lambda: affinity(np.ones(3)), r"covariance has shape \(3,\)"),
        (lambda: affinity(np.ones((0, 3))), r"covariance has shape \(0, 3\)"),
        (lambda: affinity(np.eye(2), 0.0), "tau is 0.0"),
        (lambda: affinity(np.eye(2), np.nan), "tau is nan"),
        (lambda: affinity(np.eye(2), 10**400), "tau is 1000"),
        (lambda: affinity(np.eye(2), "warm"), "tau is 'warm'"),  # type: ignore[arg-type]
        (lambda: affinity(np.eye(2), tokens=[[0], [0, 1]]), "tokens is not an array"),
        (lambda: affinity(sparse.csr_array(np.eye(2) * 1j)), "covariance is not an array of real numbers"),
        (lambda: affinity_from_factor(np.eye(2), -1.0), "tau is -1.0"),
        (lambda: affinity_from_factor(np.eye(2), tokens=[0, 0]), "tokens holds token 0 2 times"),
        (lambda: affinity_from_factor(sparse.eye_array(2)), "factor is sparse"),
        (lambda: affinity_from_factor([[np.inf]]), "factor holds inf"),
        (lambda: affinity_from_counts([[1, 0], [0, 0]]), "row 1 of counts is 0 throughout; leave it out"),
        (lambda: affinity_from_counts(sparse.csr_array([[1, 0], [0, 0]])), "row 1 of counts is 0 throughout"),
        (lambda: affinity_from_counts([[1, -2], [0, 1]]), "counts hold -2; .*affinity"),
        (lambda: affinity_from_counts([[-np.inf, 1], [0, 1]]), "counts holds -inf"),
        (lambda: affinity_from_matrix([[0.5, 0.4], [0, 1]]), "row 0 of affinity sums to 0.9 "),
        (lambda: affinity_from_matrix([[1.5, -0.5], [0, 1]]), "affinity holds -0.5"),
        (lambda: rdk([0.5, 0.5], [[3, 1], [1, 1]]), "row 0 of affinity sums to 4 .*affinity_from_counts"),
        (lambda: rdk([0.5, 0.5], np.eye(3)), "q has 2 tokens and the affinity 3"),
        (lambda: rdk([0.5, 0.6], np.eye(2)), "q sums to 1.1"),
        (
            lambda: rdk([1.0, 0.0], affinity_from_matrix([[0.5, 0.5]], tokens=[1])),
            "q has no mass on the tokens to keep",
        ),
        (lambda: affinity(np.eye(2)).nearest(0), "count is 0"),
    ],
)
def test_says_what_is_wrong(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        make()

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax

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
from tests.oracles import Floats


def everything(matrix: Affinity) -> Floats:
    return matrix.rows(0, matrix.tokens.size)


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
        wanted = softmax(covariance / tau, axis=1)
        for inputs in (covariance, sparse.csr_array(covariance), sparse.coo_matrix(covariance)):
            matrix = affinity(inputs, tau)
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
    wanted = softmax(factor @ factor.T / tau, axis=1)
    whole = affinity_from_factor(factor) if tau == 1.0 else affinity_from_factor(factor, tau)  # the default
    np.testing.assert_allclose(rdk(q, whole), q @ wanted, rtol=1e-12, atol=1e-300)
    some = np.array([8, 1, 4])
    part = affinity_from_factor(factor, tau, tokens=some)
    np.testing.assert_allclose(everything(part), wanted[some], rtol=1e-12)
    inside = q[:, some] / q[:, some].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(rdk(q, part), inside @ wanted[some], rtol=1e-12)


@each(tau=(0.2, 1.0, 3.0))
def test_counts_are_raised_to_a_power_and_stay_sparse(tau: float) -> None:
    rng = np.random.default_rng(5)
    counts = rng.poisson(0.7, (7, 7)) + np.eye(7)
    wanted = counts ** (1 / tau) / (counts ** (1 / tau)).sum(axis=1, keepdims=True)
    inputs = () if tau == 1.0 else (tau,)  # the default
    dense, stored = (affinity_from_counts(one, *inputs) for one in (counts, sparse.csc_array(counts)))
    np.testing.assert_allclose(everything(dense), wanted, rtol=1e-12)
    np.testing.assert_allclose(everything(stored), wanted, rtol=1e-12)
    assert isinstance(stored, matrices.StoredAffinity)
    assert stored.matrix.nnz == np.count_nonzero(counts)
    q = rng.dirichlet(np.ones(7))
    np.testing.assert_allclose(rdk(q, stored), rdk(q, dense), rtol=1e-12)


def kernel(above: float) -> list[float]:
    """The softmax of two logits, of which the second lies so much above the first."""
    return [1 / (1 + math.exp(above)), 1 / (1 + math.exp(-above))]


EVEN = [[0.5, 0.5], [0.5, 0.5]]
FACTORS: list[tuple[Any, float, Any]] = [
    ([[1e200], [1.0]], 1.0, [[1, 0], [1, 0]]),
    ([[1e200], [-1e200]], 1e300, [[1, 0], [0, 1]]),
    ([[1e200], [1.0], [-1.0]], 1.0, [[1, 0, 0], [1, 0, 0], [0, *kernel(2)]]),
    ([[1e200], [1e200]], 1e-300, EVEN),
    ([[1e308, -1e308], [1e308, 1e308]], 1.0, [[1, 0], [0, 1]]),
    ([[1e-200], [3e-200]], 1e-300, EVEN),
    ([[1e-150], [2e-150]], 1e-300, [kernel(1), kernel(2)]),
    ([[0.0], [0.0]], 1.0, EVEN),
]
COUNTS: list[tuple[Any, float, Any]] = [
    ([[1e300, 1e299], [1e-300, 3e-300]], 1.0, [[10 / 11, 1 / 11], [0.25, 0.75]]),
    ([[1e300, 1e299], [1e-300, 3e-300]], 1e-3, np.eye(2)),
    ([[1e308, 1e308], [1e308, 0.0]], 1.0, [[0.5, 0.5], [1.0, 0.0]]),  # whose sums overflow
]
PLAIN = random_covariance(np.random.default_rng(6), 6) + 5 * np.eye(6)
HUGE = np.array([[1e5, -1e5, 0.0], [-1e5, -1e5, -1e5], [0.0, 0.0, 0.0]])
SHIFTED = np.array([[-1e3, -1e3 + 1, -1e3 + 2], [1e-12, 0.0, -1e-12], [700.0, 710.0, 0.0]])
LOWERED = np.array([[0.0, -40.0, 0.0]] * 3)  # a column that all rows lower
COVARIANCES: list[tuple[Any, float, Any]] = [
    ([[1e308, -1e308], [-1e308, -1e308]], 1e-300, [[1, 0], [0.5, 0.5]]),
    ([[-1e308, 0.0], [1e308, 0.0]], 1e-300, [[0, 1], [1, 0]]),
    (PLAIN, 1e-300, np.eye(6)[PLAIN.argmax(axis=1)]),
    (PLAIN, 1e300, np.full((6, 6), 1 / 6)),
    *((covariance, 1.0, softmax(covariance, axis=1)) for covariance in (HUGE, SHIFTED, LOWERED)),
]
EXTREME = [
    *(
        (make, form, *case)
        for make, cases in ((affinity, COVARIANCES), (affinity_from_counts, COUNTS))
        for case in cases
        for form in (np.array, sparse.csr_array)
    ),
    *((affinity_from_factor, np.array, *case) for case in FACTORS),
    (affinity, np.array, [[0.0, -np.inf, 0.0]] * 3, 1.0, [[0.5, 0.0, 0.5]] * 3),  # rules a token out
]


@each(case={str(number): case for number, case in enumerate(EXTREME)})
def test_numbers_and_temperatures_of_any_size(case: tuple[Callable[..., Affinity], Any, Any, float, Any]) -> None:
    make, form, inputs, tau, wanted = case
    matrix, law = make(form(inputs), tau), np.full(len(inputs), 1 / len(inputs))
    np.testing.assert_allclose(everything(matrix), wanted, rtol=1e-11, atol=1e-16)
    np.testing.assert_allclose(rdk(law, matrix), law @ np.array(wanted), rtol=1e-11, atol=1e-16)
    np.testing.assert_allclose(everything(matrix.nearest(len(inputs))), wanted, rtol=1e-9, atol=1e-16)


def test_small_covariances_keep_their_digits_in_a_sparse_matrix() -> None:
    vocab = 1000
    covariance = sparse.csr_array((np.array([3e-13]), (np.array([2]), np.array([5]))), shape=(vocab, vocab))
    change = affinity(covariance).change  # type: ignore[attr-defined]  # of the sparse form
    assert change.toarray()[2, 5] == pytest.approx(3e-13, rel=1e-12)


@pytest.mark.parametrize(
    "make",
    [affinity, lambda inputs: affinity(sparse.csr_array(inputs)), affinity_from_factor, affinity_from_counts],
    ids=["dense", "sparse", "factor", "counts"],
)
def test_nearest_keeps_the_largest_entries_and_the_totals(make: Callable[[Floats], Affinity]) -> None:
    inputs = np.random.default_rng(8).gamma(0.5, size=(7, 7))
    full = everything(make(inputs))
    for count in (1, 3, 7, 100):
        wanted = np.zeros_like(full)
        for i, row in enumerate(full):
            kept = sorted(range(7), key=lambda j: (-row[j], j))[:count]
            wanted[i, kept] = row[kept] / row[kept].sum()
        nearest = make(inputs).nearest(count)
        np.testing.assert_allclose(everything(nearest), wanted, rtol=1e-13)
        assert isinstance(nearest, matrices.StoredAffinity)
        assert nearest.matrix.nnz <= 7 * count


def test_a_callers_matrix_is_left_alone_and_not_kept() -> None:
    twice = sparse.csr_array((np.array([0.5, 0.5, 1.0]), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))
    affinity_from_matrix(twice)
    assert twice.nnz == 3
    mine = np.eye(2)
    checked = affinity_from_matrix(mine)
    mine[:] = 7.0
    np.testing.assert_array_equal(rdk([0.25, 0.75], checked), [0.25, 0.75])

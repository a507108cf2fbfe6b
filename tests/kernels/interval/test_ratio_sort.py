import numpy as np
import numpy.typing as npt
import pytest

from otspec.kernels.interval.ratio_sort import FEW, sort_by_ratio
from tests.each import each

Floats = npt.NDArray[np.float64]

LARGE = 20_000


def _ratios(name: str, vocab: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(7)
    q = rng.random(vocab) + 0.01
    p = q * np.exp(3 * rng.standard_normal(vocab))
    if name in ("cluster", "cluster-and-outliers"):
        p = q * (1 + 1e-9 * rng.standard_normal(vocab))
    if name in ("cluster-and-outliers", "outliers"):
        p[:2] = 1e-300, 1e300
    if name == "same":
        p = q.copy()
    if name == "zeros":
        p[rng.random(vocab) < 0.5] = 0.0
        q[rng.random(vocab) < 0.5] = 0.0
    if name == "infinite":
        q[:7] = 5e-324
    if name == "all-zero":
        p[:] = 0.0
    return p, q


@each(vocab=(1, 2, FEW, FEW + 1, LARGE))
@pytest.mark.parametrize(
    "name", ["wide", "cluster", "cluster-and-outliers", "outliers", "same", "zeros", "infinite", "all-zero"]
)
def test_order_is_exact(name: str, vocab: int) -> None:
    p, q = _ratios(name, max(vocab, 8))
    p, q = p[:vocab], q[:vocab]
    order, target, size = np.empty(vocab, dtype=np.int32), np.empty(vocab), np.empty(vocab)
    k = sort_by_ratio(p, q, 0.5, 2.0, np.empty((2, vocab), dtype=np.uint64), order, target, size)
    reachable = np.flatnonzero(q)
    assert k == reachable.size
    assert np.array_equal(np.sort(order[:k]), reachable)
    assert np.array_equal(target[:k], 0.5 * p[order[:k]])
    assert np.array_equal(size[:k], 2 * q[order[:k]])
    with np.errstate(over="ignore"):
        assert np.array_equal(target[:k] / size[:k], np.sort(0.5 * p[reachable] / (2 * q[reachable])))

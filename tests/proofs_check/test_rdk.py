"""What the claims of RDK rest on: closed forms against simulation, and rates where a bound is said to fail."""

import numpy as np
import pytest

from otspec.proofs_check.rdk.linear import under_hypotheses
from otspec.proofs_check.rdk.sampler import dobrushin
from otspec.proofs_check.rdk.softmax import failure
from otspec.vocab import acceptance_rate, affinity_from_matrix, rdk, rdk_linear


@pytest.mark.parametrize(("a", "gap"), [(0.6, -1.0), (0.9, -2.0), (0.75, -3.0), (1.0, -1.0), (0.5, -2.0)])
def test_the_probability_of_theorem_5_3_is_that_of_a_simulation(a: float, gap: float) -> None:
    draws = 200_000
    rng = np.random.default_rng(0)
    z = rng.multivariate_normal([0.0, gap], [[a, 1 - a], [1 - a, a]], draws)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    q = np.array([1.0, 0.0])
    moved = rdk(q, affinity_from_matrix([[a, 1 - a], [1 - a, a]]))
    lost = (acceptance_rate(p, moved) < acceptance_rate(p, q) - 1e-12).mean()
    expected = failure(a, gap, np.sqrt(4 * a - 2))
    assert lost == pytest.approx(expected, abs=5 * np.sqrt(expected * (1 - expected) / draws) + 1e-12)
    assert (expected > 0.1) == (a < 1)  # the identity cannot lose


def test_the_largest_probability_of_failure_under_theorem_5_3() -> None:
    grid = np.linspace(0.5, 1, 5001)
    chances = [failure(a, 6 * np.sqrt(a), np.sqrt(max(4 * a - 2, 0))) for a in grid]
    assert max(chances) == pytest.approx(5.6e-12, rel=0.02)
    assert grid[int(np.argmax(chances))] == pytest.approx(0.866, abs=0.002)


def test_without_overlaptheorem_5_4_has_only_one_over_n_squared_left() -> None:
    for size in (10, 100, 1000):
        p, q = np.full(size, 1 / (size - 1)), np.eye(size)[0]
        p[0] = 0.0
        assert p @ q == 0
        left = np.abs(rdk_linear(p, q) - 1 / size).sum()  # M^T q' is uniform, for want of covariance
        assert left == pytest.approx(2 * (1 - 1 / size), rel=1e-12)


def test_under_the_hypotheses_of_its_prooftheorem_5_4_says_as_much_of_tli() -> None:
    rng = np.random.default_rng(1)
    for size in (10, 100, 300):
        taylor, plain, scale = under_hypotheses(np.zeros(size), rng.uniform(-1, 1, size), np.zeros((size, size)))
        assert taylor == pytest.approx(plain, rel=3 / size)
        assert plain < scale


def test_the_contraction_of_laws_is_attained() -> None:
    rows = np.random.default_rng(2).dirichlet(np.ones(4), 4)
    reached = max(np.abs(rows[i] - rows[j]).sum() / 2 for i in range(4) for j in range(4))
    assert dobrushin(rows) == reached
    assert dobrushin(np.eye(3)) == 1
    assert dobrushin(np.full((3, 3), 1 / 3)) == 0

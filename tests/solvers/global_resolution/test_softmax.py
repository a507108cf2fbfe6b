import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import IID, Problem
from otspec.solvers.global_resolution.softmax import REACH, minimise, value_and_rows
from otspec.solvers.global_resolution.systems import Split, System
from tests.each import each


def systems(seed: int, n: int) -> tuple[System, System]:
    p, q = np.random.default_rng(seed).dirichlet(np.ones(12), 2)
    split = Split.of(Problem(p, IID(q, n)))
    return split.outer, split.inner


@each(n=(1, 2, 3, 5), seed=range(3))
def test_rows_are_the_gradient_and_the_softmax_sums(seed: int, n: int) -> None:
    for system in systems(seed, n):
        size = system.tokens.size
        index, mass = system.sets(size)
        alpha = np.random.default_rng([seed, n]).normal(scale=2, size=size)
        _, rows = value_and_rows(index, mass, system.slack, alpha)
        for i, step in enumerate(1e-5 * np.eye(size)):
            above, below = (value_and_rows(index, mass, system.slack, alpha + sign * step)[0] for sign in (1, -1))
            assert rows[i] == pytest.approx((above - below) / 2e-5, abs=1e-9)
        expected = np.zeros(size)
        for row, share in zip(index, mass, strict=True):
            chosen = row[row >= 0]
            expected[chosen] += share * np.exp(alpha[chosen]) / (system.slack + np.exp(alpha[chosen]).sum())
        assert_allclose(rows, expected, rtol=1e-12)


@each(n=(2, 3), seed=range(5))
def test_minimum_meets_its_slope_or_its_iterations(seed: int, n: int) -> None:
    for system in systems(seed, n):
        size = system.tokens.size
        index, mass = system.sets(size)
        found = minimise(index, mass, system.slack, system.targets, 1e-3, 1000)
        rows = value_and_rows(index, mass, system.slack, found.alpha)[1]
        assert found.slope <= 1e-3
        assert np.abs(rows - system.targets).sum() == pytest.approx(found.slope, abs=1e-15)
        short = minimise(index, mass, system.slack, system.targets, 1e-300, 2)
        assert short.iterations <= 2
        assert short.slope > 1e-300 or size <= 1


def test_variables_that_run_off_stay_in_reach() -> None:
    # The one token wants more than its tuples hold: the infimum is at infinity.
    found = minimise(np.array([[0]]), np.array([0.5]), 1.0, np.array([0.5]), 0.0, 10_000)
    assert np.abs(found.alpha).max() <= REACH
    assert found.slope < 1e-6
    assert np.isfinite(value_and_rows(np.array([[0]]), np.array([0.5]), 1.0, np.array([1e25]))[0])

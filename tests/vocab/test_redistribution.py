from fractions import Fraction

import numpy as np
import pytest

import otspec
from otspec import IID, Problem
from otspec.vocab import acceptance_rate, affinity, rdk, rdk_linear, tli
from tests.each import each
from tests.instances import PAIRS
from tests.laws import Pair


@each(pair=PAIRS)
def test_linear_is_equation_3_in_exact_arithmetic(pair: Pair) -> None:
    p, q = pair
    size = p.size
    exact = [Fraction(value) for value in p], [Fraction(value) for value in q]
    theta = sum(a * b for a, b in zip(*exact, strict=True))
    moved = [(size * b + theta * a) / (size + a) for a, b in zip(*exact, strict=True)]
    wanted = np.array([value / sum(moved) for value in moved], dtype=np.float64)
    np.testing.assert_allclose(rdk_linear(p, q), wanted, rtol=1e-13)


@each(pair=PAIRS)
def test_linear_stays_within_two_theta_over_n(pair: Pair) -> None:
    p, q = pair
    for size in (p.size, 100 * p.size):
        bound = p @ q / size
        assert np.abs(rdk_linear(p, q, size) - q).sum() <= 2 * bound + 1e-15
        assert abs(acceptance_rate(p, rdk_linear(p, q, size)) - acceptance_rate(p, q)) <= bound + 1e-15
        assert rdk_linear(p, q, size)[q == 0].sum() <= bound + 1e-15


def test_the_constant_two_is_sharp() -> None:
    size, p1 = 10**6, 1e-3
    p, q = np.full(size, (1 - p1) / (size - 1)), np.eye(1, size)[0]
    p[0] = p1
    assert np.abs(rdk_linear(p, q) - q).sum() / (p1 / size) == pytest.approx(2, abs=0.01)


def test_batches_are_their_rows() -> None:
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(5), (2, 3)), rng.dirichlet(np.ones(5), 3)
    matrix = affinity(rng.normal(size=(5, 5)))
    assert rdk(p, matrix).shape == (2, 3, 5)
    np.testing.assert_allclose(rdk(p, matrix)[1, 2], rdk(p[1, 2], matrix), rtol=1e-14)
    np.testing.assert_allclose(rdk_linear(p, q)[1, 2], rdk_linear(p[1, 2], q[2]), rtol=1e-14)


def test_a_redistributed_drafter_reaches_pruned_tokens_losslessly() -> None:
    rng = np.random.default_rng(1)
    logits = rng.normal(scale=2, size=(40, 12))
    p = np.exp(logits[0]) / np.exp(logits[0]).sum()
    q = tli(p, np.argsort(-p)[:3])
    moved = rdk(q, affinity(np.cov(logits.T), tau=2.0))
    plan = otspec.solve(Problem(p, IID(moved, 2))).plan
    assert plan is not None
    assert plan.deviation < 1e-12
    assert plan.acceptance > otspec.optimum(Problem(p, IID(q, 2))).acceptance

import numpy as np
import pytest

from otspec import IID, Problem, optimum
from otspec.vocab import acceptance_rate, drafter_kernel
from tests.each import each
from tests.instances import PAIRS
from tests.laws import Pair


@each(pair=PAIRS)
def test_sums_over_tokens(pair: Pair) -> None:
    p, q = pair
    rate, kernel = 0.0, []
    for token in range(p.size):
        rate += min(p[token], q[token])
        kernel.append(max(0.0, q[token] - p[token]))
    assert acceptance_rate(p, q) == pytest.approx(rate, rel=1e-14)
    np.testing.assert_allclose(drafter_kernel(p, q), kernel, rtol=1e-12, atol=1e-15)
    assert acceptance_rate(p, q) == pytest.approx(1 - sum(kernel), abs=1e-14)
    assert acceptance_rate(p, q) == pytest.approx(optimum(Problem(p, IID(q, 1))).acceptance, abs=1e-12)


def test_leading_axes_broadcast() -> None:
    p, q = np.random.default_rng(0).dirichlet(np.ones(6), (2, 4, 1)), np.random.default_rng(1).dirichlet(np.ones(6), 3)
    rates = acceptance_rate(p[0], q)
    assert rates.shape == (4, 3)
    assert rates[2, 1] == acceptance_rate(p[0, 2, 0], q[1])
    np.testing.assert_array_equal(drafter_kernel(p, q[0])[1, 3, 0], drafter_kernel(p[1, 3, 0], q[0]))

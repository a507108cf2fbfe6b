import numpy as np
import pytest

from otspec import IID, Problem, ProblemError, optimum
from otspec.vocab import acceptance_rate, drafter_kernel
from tests.each import each
from tests.laws import Pair
from tests.vocab.pairs import PAIRS


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


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        ([0.5, 0.5], [0.5, 0.25, 0.25], "p has 2 tokens and q 3.*embed"),
        ([0.5, 0.5], [0.5, 0.4], r"q sums to 0.9 "),
        ([[0.5, 0.5], [0.7, 0.7]], [0.5, 0.5], r"p\[1\] sums to 1.4"),
        ([[[0.5, 0.5], [-0.5, 1.5]]], [0.5, 0.5], r"p\[0, 1\]\[0\] is -0.5"),
        ([0.5, 0.5], [np.nan, 1.0], r"q\[0\] is nan"),
        ([np.inf, -np.inf], [0.5, 0.5], r"p\[0\] is inf"),
        (0.5, [0.5, 0.5], r"p has shape \(\)"),
        (np.empty((3, 0)), [0.5, 0.5], r"p has shape \(3, 0\)"),
        (np.full((2, 2), 0.5), np.full((3, 2), 0.5), r"p \(2, 2\), q \(3, 2\).*broadcast"),
        (["a", "b"], [0.5, 0.5], "p is not an array of real numbers"),
    ],
)
def test_says_what_is_wrong(p: object, q: object, message: str) -> None:
    for function in (acceptance_rate, drafter_kernel):
        with pytest.raises(ProblemError, match=message):
            function(p, q)

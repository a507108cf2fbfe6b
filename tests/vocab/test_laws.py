"""What is accepted of a pair of laws, laws on some of the tokens, and laws that are redistributed."""

from fractions import Fraction

import numpy as np
import pytest

from otspec import IID, Problem, optimum
from otspec.vocab import acceptance_rate, affinity, drafter_kernel, embed, frequency_prune, rdk, rdk_linear, tli
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


MEETING = {name: (p, q) for name, (p, q) in PAIRS.items() if (q[p > 0] > 0).any()}


@each(pair=MEETING)
def test_is_q_on_the_support_of_p(pair: Pair) -> None:
    p, q = pair
    shared = [token for token in range(p.size) if p[token] > 0 and q[token] > 0]
    mass = sum(q[token] for token in shared)
    wanted = [q[token] / mass if token in shared else 0.0 for token in range(p.size)]
    np.testing.assert_allclose(tli(q, p > 0), wanted, rtol=1e-14)
    np.testing.assert_array_equal(tli(q, np.flatnonzero(p)), tli(q, p > 0))
    assert acceptance_rate(p, tli(q, p > 0)) >= acceptance_rate(p, q) * (1 - 1e-14)


def test_the_smallest_mass_is_enough() -> None:
    np.testing.assert_array_equal(tli([1.0, 1e-300, 3e-300], [1, 2]), [0.0, 0.25, 0.75])
    np.testing.assert_array_equal(tli([1.0, 5e-324], [False, True]), [0.0, 1.0])


def test_a_foreign_vocabulary_comes_in_by_its_ids() -> None:
    ids = np.array([4, -1, 0])
    q = np.array([[0.5, 0.25, 0.25], [0.1, 0.0, 0.9]])
    np.testing.assert_allclose(
        embed(tli(q, ids >= 0), ids, 5), [[1 / 3, 0, 0, 0, 2 / 3], [0.9, 0, 0, 0, 0.1]], rtol=1e-15
    )


@each(seed=range(20))
def test_is_a_sort_by_frequency_that_keeps_ids_in_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 5, int(rng.integers(1, 12)))  # ties everywhere
    ranked = sorted(range(counts.size), key=lambda token: (-counts[token], token))
    for size in range(1, counts.size + 1):
        assert frequency_prune(counts, size).tolist() == ranked[:size]


@each(pair=PAIRS)
def test_linear_is_equation_3_in_exact_arithmetic(pair: Pair) -> None:
    p, q = pair
    size = p.size
    exact = [Fraction(value) for value in p], [Fraction(value) for value in q]
    theta = sum(a * b for a, b in zip(*exact, strict=True))
    moved = [(size * b + theta * a) / (size + a) for a, b in zip(*exact, strict=True)]
    wanted = np.array([value / sum(moved) for value in moved], dtype=np.float64)
    np.testing.assert_allclose(rdk_linear(p, q), wanted, rtol=1e-13)


def test_batches_are_their_rows_and_leading_axes_broadcast() -> None:
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(5), (2, 3)), rng.dirichlet(np.ones(5), 3)
    matrix, mask = affinity(rng.normal(size=(5, 5))), rng.random((2, 3, 5)) < 0.7
    mask[..., 0] = True
    for both, row in (
        (rdk(p, matrix), rdk(p[1, 2], matrix)),
        (rdk_linear(p, q), rdk_linear(p[1, 2], q[2])),
        (drafter_kernel(p, q), drafter_kernel(p[1, 2], q[2])),
        (acceptance_rate(p, q)[..., None], acceptance_rate(p[1, 2], q[2])),
        (tli(q, mask), tli(q[2], mask[1, 2])),
    ):
        assert both.shape[:-1] == (2, 3)
        np.testing.assert_allclose(both[1, 2], row, rtol=1e-14)

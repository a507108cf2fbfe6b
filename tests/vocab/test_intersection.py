import numpy as np
import pytest

from otspec import ProblemError
from otspec.vocab import acceptance_rate, embed, tli
from tests.each import each
from tests.laws import Pair
from tests.vocab.pairs import PAIRS

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


def test_masks_and_laws_broadcast() -> None:
    rng = np.random.default_rng(0)
    q, mask = rng.dirichlet(np.ones(5), 3), rng.random((2, 3, 5)) < 0.7
    mask[..., 0] = True
    both = tli(q, mask)
    assert both.shape == (2, 3, 5)
    np.testing.assert_array_equal(both[1, 2], tli(q[2], mask[1, 2]))


@pytest.mark.parametrize(
    ("q", "target", "message"),
    [
        ([1.0, 0.0], [1], "q has no mass on the tokens to keep"),
        ([[0.5, 0.5], [1.0, 0.0]], [1], r"q\[1\] has no mass"),
        ([0.5, 0.5], [2], "target holds 2; token ids run from 0 to 1"),
        ([0.5, 0.5], [-1], "target holds -1"),
        ([0.5, 0.5], [0, 0], "target holds token 0 2 times"),
        ([0.5, 0.5], [0.5, 0.5], r"target is float64.*p > 0"),
        ([0.5, 0.5], [[0], [1]], r"target has shape \(2, 1\)"),
        ([0.5, 0.5], [True, False, True], r"target is a mask of shape \(3,\)"),
        ([0.5, 0.5], True, r"target is a mask of shape \(\)"),
        ([0.5, 0.5], [], "q has no mass"),
        (np.full((2, 2), 0.5), np.ones((3, 2), dtype=bool), r"q \(2, 2\), target \(3, 2\)"),
    ],
)
def test_says_what_is_wrong(q: object, target: object, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        tli(q, target)


def test_a_foreign_vocabulary_comes_in_by_its_ids() -> None:
    ids = np.array([4, -1, 0])
    q = np.array([[0.5, 0.25, 0.25], [0.1, 0.0, 0.9]])
    np.testing.assert_allclose(
        embed(tli(q, ids >= 0), ids, 5), [[1 / 3, 0, 0, 0, 2 / 3], [0.9, 0, 0, 0, 0.1]], rtol=1e-15
    )
    with pytest.raises(ProblemError, match=r"mass 0.25 on tokens with id -1.*tli"):
        embed(q, ids, 5)
    with pytest.raises(ProblemError, match="ids holds 4; token ids run from 0 to 3"):
        embed(q[1], ids, 4)
    with pytest.raises(ProblemError, match="ids holds token 4 2 times"):
        embed(q[1], [4, 4, 0], 5)
    with pytest.raises(ProblemError, match=r"ids have shape \(2,\); q has 3 tokens"):
        embed(q, ids[:2], 5)
    with pytest.raises(ProblemError, match="vocab is 0"):
        embed(q[1], ids, 0)
    with pytest.raises(ProblemError, match="vocab is more than 2,147,483,647"):
        embed(q[1], ids, 10**20)

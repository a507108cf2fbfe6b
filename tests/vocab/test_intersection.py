"""Laws on some of the tokens: the intersection of two vocabularies, and the most frequent of one."""

import numpy as np

from otspec.vocab import acceptance_rate, embed, frequency_prune, tli
from tests.each import each
from tests.instances import PAIRS
from tests.laws import Pair

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


def test_the_pruned_head_gives_a_law_on_the_kept_tokens() -> None:
    rng = np.random.default_rng(0)
    head, hidden = rng.normal(size=(8, 3)), rng.normal(size=3)
    kept = frequency_prune(np.bincount([5, 5, 2, 7, 2, 5], minlength=8), 3)
    assert kept.tolist() == [5, 2, 7]
    weights = np.exp(head[kept] @ hidden)
    law = embed(weights / weights.sum(), kept, 8)
    assert np.flatnonzero(law).tolist() == [2, 5, 7]
    assert law[5] == weights[0] / weights.sum()

"""What look-ahead rests on: the weight of block verification, the cut by it, and swaps that stay within places."""

import numpy as np
import pytest

from otspec.paths import Nested, synthetic
from otspec.verification.rules.block.block import block_weights
from otspec.verification.rules.nested.growth import next_weight
from otspec.verification.rules.nested.labels import Label, whole
from otspec.verification.rules.nested.ranking import FINEST
from otspec.verification.rules.nested.sharing import PLAIN, Sharing, join, refine
from tests.each import each

COUNTS = np.eye(3)[-1]
SPLIT = Sharing(np.array([0.5, 0.9, 1.6]), 0.0, True, np.inf)


def test_weights_are_those_of_block_verification() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        target, proposal = rng.dirichlet(np.full(4, 0.5), 9), rng.dirichlet(np.full(4, 0.5), 8)
        tokens = rng.integers(4, size=8)
        weight = 1.0
        for i, expected in enumerate(block_weights(target, proposal, tokens).weight[1:]):
            weight = next_weight(weight, target[i, tokens[i]], proposal[i, tokens[i]])
            assert weight == pytest.approx(expected, rel=1e-13)
    assert next_weight(0.5, 0.4, 0.3) == pytest.approx(2 / 3)
    assert next_weight(0.5, 0.4, 0.1) == 1.0


@each(regime=("mixed", "sharp", "far"), seed=(0, 1), share=(0.3, 0.6, 0.9))
def test_tokens_on_either_side_of_the_cut_stay_among_themselves(regime: str, seed: int, share: float) -> None:
    """Look-ahead swaps among the tokens whose proposal exceeds weight * p, and among the others, never across."""
    laws = synthetic(regime, 60, seed)
    p, q = np.asarray(laws.target(())), np.asarray(laws.draft(()))
    plain = refine(p, q, COUNTS, whole(), 1.0, PLAIN)
    slopes = np.sort(plain.proposal / p)
    weight = slopes[0] + share * (slopes[-1] - slopes[0])
    over = plain.proposal > weight * p
    ahead = refine(p, q, COUNTS, whole(), weight, SPLIT)
    side = np.empty(ahead.group.max() + 1, dtype=bool)
    side[ahead.group] = over
    assert 0 < over.sum() < 60
    assert ahead.amount.size
    assert (side[ahead.owner[ahead.recipient]] == side[ahead.owner[ahead.donor]]).all()
    # So what is worth too much stays so, and the present level loses nothing but the little that rounding takes.
    assert ahead.proposal[over].sum() == pytest.approx(plain.proposal[over].sum(), abs=1e-12)


@each(regime=("mixed", "close", "sharp", "far"), seed=(0, 1), weight=(0.6, 1.0))
def test_buckets_on_the_last_level_cost_next_to_nothing(regime: str, seed: int, weight: float) -> None:
    """What is lost to min(weight p, g) is what tokens of the bucket at the cut lose by sharing evenly."""
    laws = synthetic(regime, 1000, seed)
    p, q = np.asarray(laws.target(())), np.asarray(laws.draft(()))
    sharings = Nested()._sharings
    assert sharings.last.grain == FINEST
    accepted = [
        np.minimum(weight * p, refine(p, q, COUNTS, whole(), weight, sharing).proposal).sum()
        for sharing in (PLAIN, sharings.last, sharings.last._replace(grain=0.1))
    ]
    assert -1e-12 <= accepted[0] - accepted[1] < 5e-4
    assert accepted[0] - accepted[2] >= -1e-12


def test_grains_end_at_the_cut() -> None:
    """Ranks of nearly equal ratio are one group, but not across the cut."""
    ratio = np.array([0.5, 0.505, 0.9, 0.905, 0.909, 0.912, 1.5, 1.51])
    for cut, groups in ((0, [0, 0, 1, 1, 1, 1, 2, 2]), (4, [0, 0, 1, 1, 2, 2, 3, 3]), (8, [0, 0, 1, 1, 1, 1, 2, 2])):
        size = np.full(8, 0.125)
        target, group = ratio * size, np.empty(8, dtype=np.int64)
        number, below = join(target, size, cut, 0.02, np.inf, group)
        assert group.tolist() == groups, cut
        assert (number, below) == (max(groups) + 1, len(set(groups[:cut]))), cut
        np.testing.assert_allclose(size[:number], np.bincount(groups) * 0.125)
        np.testing.assert_allclose(target[:number], np.bincount(groups, ratio * 0.125))


def test_no_swap_exceeds_a_place_that_was_made_longer() -> None:
    """Places below `LEAST` are made as long as that, and then there is more to swap than one of them can hold."""
    p = np.array([2.0257007561194237e-296, 1.0, 3.3671344410841387e-224, 1.706851787634263e-285])
    narrow = Label(np.array([[1 - 1e-12]]), np.array([[1e-12]]), np.ones(1), np.empty(0, dtype=np.int64), 1.0)
    for width in np.linspace(-3e-12, 3e-12, 41):
        q = p * (1 + width * np.array([1.0, 0.0, -0.2, 0.5]))
        places = refine(p / p.sum(), q / q.sum(), COUNTS, narrow, 1.0, PLAIN)
        assert (places.kept >= 0).all(), width
        filled = places.kept.copy()
        np.add.at(filled, places.recipient, places.amount)
        np.add.at(filled, places.donor, places.amount)
        np.testing.assert_allclose(filled, places.size, rtol=1e-12)

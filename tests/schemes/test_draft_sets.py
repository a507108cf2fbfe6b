import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from otspec import IID, ProblemError
from otspec.schemes import DraftSets
from otspec.schemes.draft_sets import PAD, pick_law, pick_weights
from tests.each import each
from tests.instances import VARIED, Instance
from tests.oracles import set_masses


@pytest.fixture
def sets() -> DraftSets:
    """Repeats in every place, orders of one set, and sets that are prefixes of others."""
    drafts = np.array([[3, 3, 3], [1, 3, 1], [3, 1, 3], [1, 1, 3], [0, 3, 1], [1, 2, 3], [1, 1, 1]])
    return DraftSets.of_support(drafts, np.array([1, 2, 4, 8, 16, 32, 64]) / 127)


def test_of_support_groups_by_distinct_tokens(sets: DraftSets) -> None:
    assert_array_equal(sets.tokens, [[0, 1, 3], [1, PAD, PAD], [1, 2, 3], [1, 3, PAD], [3, PAD, PAD]])
    assert_allclose(sets.mass * 127, [16, 64, 32, 14, 1], rtol=1e-15)
    assert len(sets) == 5


def test_of_support_keeps_long_tuples_ascending() -> None:
    # Beyond 16 drafts numpy's default sort is no longer stable, and the tokens would come out shuffled.
    drafts = np.repeat(np.arange(20), 2)[None, :]
    sets = DraftSets.of_support(drafts, np.ones(1))
    assert_array_equal(sets.cells, np.arange(20))
    assert_array_equal(sets.tokens[0, 20:], PAD)


def test_cells_are_numbered_set_by_set(sets: DraftSets) -> None:
    assert_array_equal(sets.indptr, [0, 3, 4, 7, 9, 10])
    assert_array_equal(sets.cells, [0, 1, 3, 1, 1, 2, 3, 1, 3, 3])
    assert_array_equal(sets.owner, [0, 0, 0, 1, 2, 2, 2, 3, 3, 4])


@each(drafts=([3, 1, 1], [1, 3, 3], [3, 3, 1], [1, 1, 3]))
def test_find_sees_neither_order_nor_repeats(sets: DraftSets, drafts: list[int]) -> None:
    assert sets.find(np.array(drafts)) == 3


def test_find_finds_every_set() -> None:
    sets = IID(np.full(6, 1 / 6), 3).draft_sets()
    for row, tokens in enumerate(sets.tokens):
        present = tokens[tokens != PAD]
        assert sets.find(np.resize(present[::-1], 3)) == row


@each(drafts=([0, 0, 0], [2, 2, 2], [0, 1, 1], [1, 2, 2], [0, 1, 2], [3, 3, 4]))
def test_find_refuses_what_cannot_occur(sets: DraftSets, drafts: list[int]) -> None:
    with pytest.raises(ProblemError, match="have probability 0 under the scheme; draw them with its sample"):
        sets.find(np.array(drafts))


@each(instance=VARIED)
def test_masses_are_those_of_enumeration(instance: Instance) -> None:
    scheme = instance.problem.scheme
    sets = scheme.draft_sets()
    assert len(sets) <= scheme.set_count()
    expected = set_masses(scheme)
    found = {tuple(row[row != PAD].tolist()): mass for row, mass in zip(sets.tokens, sets.mass, strict=True)}
    assert len(found) == len(sets)
    assert expected.keys() <= found.keys()
    for key, mass in found.items():
        # Relative: every mass is a sum of positive products; products near 1e-308 lose digits, hence the floor.
        assert mass == pytest.approx(expected.get(key, 0.0), rel=1e-13, abs=1e-300)


@each(instance=VARIED)
def test_both_ways_of_listing_the_sets_agree(instance: Instance) -> None:
    scheme = instance.problem.scheme
    direct, grouped = scheme.draft_sets(), DraftSets.of_support(*scheme.support())
    # Products near the smallest float may be 0 on one way and not on the other.
    regular, regular_too = direct.mass > 1e-305, grouped.mass > 1e-305
    assert_array_equal(direct.tokens[regular], grouped.tokens[regular_too])
    assert_allclose(direct.mass[regular], grouped.mass[regular_too], rtol=1e-13)


def test_pick_weights_are_proportional_and_uniform_where_nothing_is_accepted() -> None:
    sets = IID(np.array([0.5, 0.5]), 2).draft_sets()  # {0}, {0, 1}, {1}
    assert_allclose(pick_weights(sets, np.array([0.1, 0.3, 0.1, 0.0])), [1, 0.75, 0.25, 1], rtol=1e-15)
    assert_allclose(pick_weights(sets, np.zeros(4)), [1, 0.5, 0.5, 1], rtol=1e-15)


def test_pick_law_adds_up_over_sets() -> None:
    sets = IID(np.array([0.5, 0.5]), 2).draft_sets()  # masses 1/4, 1/2, 1/4
    assert_allclose(pick_law(sets, np.array([1, 0.75, 0.25, 1]), 3), [0.625, 0.375, 0.0], rtol=1e-15)

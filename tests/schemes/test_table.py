"""Drafts from a table, a list of which nothing else is known, and sets of drafts."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from otspec import IID, DraftScheme, ProblemError, Table, check_scheme
from otspec.schemes import DraftSets, Enumerated, Support
from otspec.schemes.draft_sets import PAD, pick_law, pick_weights
from tests.each import each
from tests.instances import VARIED, Instance
from tests.oracles import all_tuples

DRAFTS = np.array([[0, 1], [1, 0], [3, 3], [1, 4], [2, 2]])
LAW = np.array([0.4, 0.1, 0.3, 0.2, 0.0])
TABLE = Table(DRAFTS, LAW, 6)
"""Correlated drafts over six tokens: 2 stands in a row of probability 0 only, 5 in none."""


@each(
    case=(
        ([0, 1], [0.5, 0.5], 6, r"drafts have shape \(2,\)"),
        (np.empty((0, 2), dtype=np.int64), [], 6, r"drafts have shape \(0, 2\)"),
        ([[0.5, 1.0]], [1.0], 6, "token ids are integers"),
        ([[0, 6]], [1.0], 6, "hold 6"),
        ([[0, -1]], [1.0], 6, "hold -1"),
        ([[0, 1], [1, 0]], [1.0], 6, "2 tuples of drafts have 1 probabilities"),
        ([[0, 1]], [0.9], 6, "probabilities sums to 0.9"),
        ([[2, 1], [0, 1], [2, 1]], [0.5, 0.25, 0.25], 6, r"the tuple \[2, 1\] appears twice"),
        (DRAFTS, LAW, 2.5, r"vocab is 2\.5; pass an integer"),
        ([[0, 1], [0]], [0.5, 0.5], 3, "drafts are ragged"),
    )
)
def test_refuses(case: tuple[Any, Any, Any, str]) -> None:
    drafts, law, vocab, message = case
    with pytest.raises(ProblemError, match=message):
        Table(drafts, law, vocab)


def test_takes_lists_and_keeps_its_own_copy() -> None:
    drafts = DRAFTS.copy()
    table = Table(drafts, LAW, 6)
    drafts[0] = 5
    assert_array_equal(table.drafts[0], [0, 1])
    rows: Any = DRAFTS.tolist()
    assert_array_equal(Table(rows, LAW, 6).drafts, DRAFTS)


def test_rows_are_told_in_any_shape_and_in_their_order() -> None:
    asked = np.array([[[0, 1], [0, 0]], [[2, 2], [3, 3]], [[4, 1], [1, 4]]])
    assert_allclose(TABLE.prob(asked), [[0.4, 0.0], [0.0, 0.3], [0.0, 0.2]], rtol=1e-15)
    assert_array_equal(TABLE.support().drafts, DRAFTS[:4])
    assert TABLE.support_size() == 4
    # With order 1, 3, 0, ...: the tuples (0, 1), (1, 0), (1, 4) give token 1, and (3, 3) gives token 3.
    assert_allclose(TABLE.priority_law(np.array([1, 3, 0, 4, 2, 5])), [0, 0.7, 0, 0.3, 0, 0], rtol=0, atol=1e-15)
    assert TABLE.prefix_order(np.full(6, 1 / 6)) is None
    assert_array_equal(TABLE.draft_sets().tokens, [[0, 1], [1, 4], [3, -1]])
    assert_allclose(TABLE.draft_sets().mass, [0.5, 0.2, 0.3], rtol=1e-15)
    assert_array_equal(TABLE.compact().drafts, [[0, 1], [1, 0], [2, 2], [1, 3]])


class Listed(Enumerated):
    """Another scheme, of which nothing is known but its list."""

    def __init__(self, scheme: DraftScheme) -> None:
        self.scheme, self.n, self.vocab = scheme, scheme.n, scheme.vocab

    def support(self) -> Support:
        return self.scheme.support()


@each(instance=VARIED)
def test_a_list_says_what_its_scheme_says(instance: Instance) -> None:
    scheme = instance.problem.scheme
    listed = Listed(scheme)
    tuples, order = all_tuples(scheme), np.random.default_rng(0).permutation(scheme.vocab)
    assert_array_equal(listed.prob(tuples), scheme.prob(tuples))
    for method in ("hit_chain", "priority_law"):
        assert_allclose(getattr(listed, method)(order), getattr(scheme, method)(order), rtol=0, atol=1e-14)
    for law in ("first_draft", "inclusion"):
        known = getattr(scheme, law)()
        assert known is None or np.abs(getattr(listed, law)() - known).max() <= 1e-14
    assert_array_equal(listed.draft_sets().tokens, scheme.draft_sets().tokens)
    assert_allclose(listed.draft_sets().mass, scheme.draft_sets().mass, rtol=1e-12)
    assert_array_equal(listed.reachable(), np.unique(scheme.support().drafts))
    assert listed.support_size() <= scheme.support_size()
    assert listed.compact().n == scheme.n
    if scheme.vocab < 4:
        assert check_scheme(listed, draws=100).unknown == ("prefix_order",)


# --- sets of drafts


def test_sets_are_grouped_by_distinct_tokens_and_numbered_one_after_the_other() -> None:
    """Repeats in every place, orders of one set, and sets that are prefixes of others."""
    drafts = np.array([[3, 3, 3], [1, 3, 1], [3, 1, 3], [1, 1, 3], [0, 3, 1], [1, 2, 3], [1, 1, 1]])
    sets = DraftSets.of_support(drafts, np.array([1, 2, 4, 8, 16, 32, 64]) / 127)
    assert_array_equal(sets.tokens, [[0, 1, 3], [1, PAD, PAD], [1, 2, 3], [1, 3, PAD], [3, PAD, PAD]])
    assert_allclose(sets.mass * 127, [16, 64, 32, 14, 1], rtol=1e-15)
    assert_array_equal(sets.indptr, [0, 3, 4, 7, 9, 10])
    assert_array_equal(sets.cells, [0, 1, 3, 1, 1, 2, 3, 1, 3, 3])
    assert_array_equal(sets.owner, [0, 0, 0, 1, 2, 2, 2, 3, 3, 4])
    for row in ([3, 1, 1], [1, 3, 3], [3, 3, 1], [1, 1, 3]):  # neither order nor repeats count
        assert sets.find(np.array(row)) == 3
    for row in ([0, 0, 0], [2, 2, 2], [0, 1, 1], [1, 2, 2], [0, 1, 2], [3, 3, 4]):
        with pytest.raises(ProblemError, match="have probability 0 under the scheme; draw them with its sample"):
            sets.find(np.array(row))


def test_find_finds_every_set_and_long_tuples_stay_ascending() -> None:
    sets = IID(np.full(6, 1 / 6), 3).draft_sets()
    for row, tokens in enumerate(sets.tokens):
        assert sets.find(np.resize(tokens[tokens != PAD][::-1], 3)) == row
    # Beyond 16 drafts numpy's default sort is no longer stable, and the tokens would come out shuffled.
    long = DraftSets.of_support(np.repeat(np.arange(20), 2)[None, :], np.ones(1))
    assert_array_equal(long.tokens[0], [*range(20), *[PAD] * 20])


def test_pick_weights_are_proportional_uniform_where_nothing_is_accepted_and_add_up_over_sets() -> None:
    sets = IID(np.array([0.5, 0.5]), 2).draft_sets()  # {0}, {0, 1}, {1}, of masses 1/4, 1/2, 1/4
    assert_allclose(pick_weights(sets, np.array([0.1, 0.3, 0.1, 0.0])), [1, 0.75, 0.25, 1], rtol=1e-15)
    assert_allclose(pick_weights(sets, np.zeros(4)), [1, 0.5, 0.5, 1], rtol=1e-15)
    assert_allclose(pick_law(sets, np.array([1, 0.75, 0.25, 1]), 3), [0.625, 0.375, 0.0], rtol=1e-15)

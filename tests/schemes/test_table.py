from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare

from otspec import IID, DraftScheme, ProblemError, Table, check_scheme
from otspec.schemes import Enumerated, Support
from tests.each import each
from tests.instances import Q4, VARIED, Instance
from tests.oracles import all_tuples

DRAFTS = np.array([[0, 1], [1, 0], [3, 3], [1, 4], [2, 2]])
LAW = np.array([0.4, 0.1, 0.3, 0.2, 0.0])


@pytest.fixture
def table() -> Table:
    """Correlated drafts over six tokens: 2 stands in a row of probability 0 only, 5 in none."""
    return Table(DRAFTS, LAW, 6)


@pytest.mark.parametrize(
    ("drafts", "law", "message"),
    [
        ([0, 1], [0.5, 0.5], r"drafts have shape \(2,\)"),
        (np.empty((0, 2), dtype=np.int64), [], r"drafts have shape \(0, 2\)"),
        ([[0.5, 1.0]], [1.0], "token ids are integers"),
        ([[0, 6]], [1.0], "hold 6"),
        ([[0, -1]], [1.0], "hold -1"),
        ([[0, 1], [1, 0]], [1.0], "2 tuples of drafts have 1 probabilities"),
        ([[0, 1]], [0.9], "probabilities sums to 0.9"),
        ([[2, 1], [0, 1], [2, 1]], [0.5, 0.25, 0.25], r"the tuple \[2, 1\] appears twice"),
    ],
)
def test_refuses(drafts: Any, law: Any, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        Table(drafts, law, 6)


def test_refuses_a_vocabulary_that_is_no_count() -> None:
    with pytest.raises(ProblemError, match=r"vocab is 2\.5; pass an integer"):
        Table(DRAFTS, LAW, 2.5)  # type: ignore[arg-type]


def test_refuses_ragged_tuples() -> None:
    ragged: Any = [[0, 1], [0]]
    with pytest.raises(ProblemError, match="drafts are ragged"):
        Table(ragged, np.array([0.5, 0.5]), 3)


def test_takes_lists_and_keeps_its_own_copy() -> None:
    drafts = DRAFTS.copy()
    table = Table(drafts, LAW, 6)
    drafts[0] = 5
    assert_array_equal(table.drafts[0], [0, 1])
    rows: Any = DRAFTS.tolist()
    assert_array_equal(Table(rows, LAW, 6).drafts, DRAFTS)


def test_prob_of_any_shape(table: Table) -> None:
    asked = np.array([[[0, 1], [0, 0]], [[2, 2], [3, 3]]])
    assert_allclose(table.prob(asked), [[0.4, 0.0], [0.0, 0.3]], rtol=1e-15)
    assert table.prob(asked[0, 0]).shape == ()


def test_order_within_a_tuple_counts(table: Table) -> None:
    assert table.prob(np.array([4, 1])) == 0
    assert table.prob(np.array([1, 4])) == pytest.approx(0.2)


def test_support_leaves_out_what_cannot_occur(table: Table) -> None:
    drafts, probabilities = table.support()
    assert_array_equal(drafts, DRAFTS[:4])
    assert_allclose(probabilities, LAW[:4], rtol=1e-15)
    assert table.support_size() == 4
    assert_array_equal(table.reachable(), [0, 1, 3, 4])


def test_priority_law_is_the_law_of_the_best_placed_draft(table: Table) -> None:
    # With order 1, 3, 0, ...: the tuples (0, 1), (1, 0), (1, 4) give token 1, and (3, 3) gives token 3.
    assert_allclose(table.priority_law(np.array([1, 3, 0, 4, 2, 5])), [0, 0.7, 0, 0.3, 0, 0], rtol=0, atol=1e-15)


def test_compact_renumbers_and_adds_a_token_never_drafted(table: Table) -> None:
    compact = table.compact()
    assert compact.vocab == 5
    assert_array_equal(compact.drafts, [[0, 1], [1, 0], [2, 2], [1, 3]])
    assert_array_equal(compact.reachable(), [0, 1, 2, 3])


def test_draft_sets_add_up_the_orders_of_a_set(table: Table) -> None:
    sets = table.draft_sets()
    assert_array_equal(sets.tokens, [[0, 1], [1, 4], [3, -1]])
    assert_allclose(sets.mass, [0.5, 0.2, 0.3], rtol=1e-15)
    assert table.set_count() >= len(sets)


def test_agrees_with_an_iid_scheme_written_out() -> None:
    iid = IID(Q4, 3)
    tuples = all_tuples(iid)
    table = Table(tuples, iid.prob(tuples), 4)
    order = np.array([2, 0, 3, 1])
    # Sums of 64 products here, closed forms there.
    assert_allclose(table.hit_chain(order), iid.hit_chain(order), rtol=0, atol=1e-14)
    assert_array_equal(table.draft_sets().tokens, iid.draft_sets().tokens)
    assert_allclose(table.draft_sets().mass, iid.draft_sets().mass, rtol=1e-13)


def test_sample_frequencies_follow_the_table(table: Table) -> None:
    drafts = table.sample(np.random.default_rng(0), 10_000)
    counts = np.array([(drafts == row).all(axis=1).sum() for row in DRAFTS])
    assert counts.sum() == 10_000
    assert counts[4] == 0
    assert chisquare(counts[:4], 10_000 * LAW[:4]).pvalue > 1e-3  # fixed seed
    assert table.sample(np.random.default_rng(0)).shape == (2,)


def test_no_prefix_order_is_known(table: Table) -> None:
    assert table.prefix_order(np.full(6, 1 / 6)) is None


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


def test_a_list_passes_the_check() -> None:
    found = check_scheme(Listed(IID(Q4, 2)))
    assert (found.tuples, found.unknown) == (16, ("prefix_order",))

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare

from otspec import IID, HubPairs, Problem, ProblemError, Table, WithoutReplacement, optimum
from tests.instances import INSTANCES, Q4, Instance
from tests.oracles import Floats, all_tuples, hit_function, mass_function, optimal_acceptance

LAWS: dict[str, Floats] = {
    "plain": Q4,
    "zeros": np.array([0.0, 0.5, 0.0, 0.3, 0.2]),
    "point": np.array([0.0, 1.0, 0.0]),
    "one-token": np.ones(1),
    "ties": np.full(5, 0.2),
    "tail": np.array([1e-300, 1 - 1e-12, 1e-12]),
    "nearly-certain": np.array([1e-300, 1.0, 3e-300]),
}
ROUNDING = 1e-15


@pytest.fixture(params=LAWS.values(), ids=list(LAWS))
def q(request: pytest.FixtureRequest) -> Floats:
    law: Floats = request.param
    return law


HUB_INSTANCES = [instance for instance in INSTANCES if isinstance(instance.problem.scheme, HubPairs)]


def test_the_law_of_the_pairs() -> None:
    scheme = HubPairs(np.array([0.5, 0.3, 0.2]))
    assert scheme.hub == 0
    assert scheme.n == 2
    expected = {(1, 0): 0.3, (2, 0): 0.2, (0, 1): 0.5 * 0.6, (0, 2): 0.5 * 0.4}
    for pair in ((a, b) for a in range(3) for b in range(3)):
        assert scheme.prob(np.array(pair)) == pytest.approx(expected.get(pair, 0.0), abs=ROUNDING)


def test_the_hub_is_the_first_of_equals() -> None:
    assert HubPairs(np.array([0.2, 0.4, 0.4])).hub == 1


def test_both_drafts_are_the_only_token_there_is() -> None:
    scheme = HubPairs(LAWS["point"])
    assert_array_equal(scheme.sample(np.random.default_rng(0)), [1, 1])
    assert_array_equal(scheme.support().drafts, [[1, 1]])
    assert_array_equal(scheme.support().probabilities, [1.0])


def test_the_other_token_keeps_its_law_beside_a_hub_that_is_nearly_certain() -> None:
    # 1 - q(hub) is 0 in float64; the pairs (hub, i) share out what lies beside the hub all the same.
    scheme = HubPairs(LAWS["nearly-certain"])
    assert_allclose(scheme.prob(np.array([[1, 0], [1, 2]])), [0.25, 0.75], rtol=1e-14)
    assert_allclose(scheme.prob(np.array([[0, 1], [2, 1]])), [1e-300, 3e-300], rtol=1e-14)


def test_refuses_what_is_no_law() -> None:
    with pytest.raises(ProblemError, match=r"q sums to 0\.9"):
        HubPairs(Q4 * 0.9)


def test_support_lists_every_pair_that_can_occur(q: Floats) -> None:
    scheme = HubPairs(q)
    drafts, probabilities = scheme.support()
    tuples = all_tuples(scheme)
    assert_array_equal(drafts, tuples[scheme.prob(tuples) > 0])
    assert_array_equal(probabilities, scheme.prob(drafts))
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-14)
    assert len(drafts) <= scheme.support_size()
    assert len(scheme.draft_sets()) <= scheme.set_count()
    assert set(np.unique(drafts)) == set(scheme.reachable().tolist())


def test_hit_chain_and_priority_law_are_those_of_enumeration(q: Floats) -> None:
    scheme = HubPairs(q)
    hits, tuples = hit_function(scheme), all_tuples(scheme)
    for order in map(np.array, itertools.permutations(range(q.size))):
        chain = scheme.hit_chain(order)
        assert_allclose(chain, hits[np.concatenate(([0], np.cumsum(1 << order)))], rtol=0, atol=4 * ROUNDING)
        best = order[np.argsort(order)[tuples].min(axis=1)]
        expected = np.eye(q.size)[best].T @ scheme.prob(tuples)
        assert_allclose(scheme.priority_law(order), expected, rtol=0, atol=4 * ROUNDING)


def test_first_draft_and_inclusion_are_those_of_enumeration() -> None:
    drafts, probabilities = WithoutReplacement(Q4, 3).support()
    for scheme in (*map(HubPairs, LAWS.values()), IID(Q4, 3), Table(drafts, probabilities, 4)):
        tuples = all_tuples(scheme)
        masses = scheme.prob(tuples)
        tokens = np.arange(scheme.vocab)[:, None]
        first, inclusion = scheme.first_draft(), scheme.inclusion()
        assert first is not None
        assert inclusion is not None
        assert_allclose(first, (tuples[:, 0] == tokens) @ masses, rtol=0, atol=4 * ROUNDING)
        assert_allclose(inclusion, (tuples[None] == tokens[:, None]).any(axis=2) @ masses, rtol=0, atol=4 * ROUNDING)


def test_compact_keeps_the_pairs() -> None:
    compact = HubPairs(LAWS["zeros"]).compact()
    assert_allclose(compact.q, [0.5, 0.3, 0.2, 0.0], rtol=1e-15)


@pytest.mark.parametrize("instance", HUB_INSTANCES, ids=lambda instance: instance.name)
def test_prefixes_serve_every_slope(instance: Instance) -> None:
    problem = instance.problem
    order = problem.scheme.prefix_order(problem.p)
    assert order is not None
    assert_array_equal(np.sort(order), np.arange(problem.vocab))
    hits, masses = hit_function(problem.scheme), mass_function(problem.p)
    prefixes = np.concatenate(([0], np.cumsum(1 << order)))
    for slope in np.concatenate((np.geomspace(1e-12, 1e12, 25), np.linspace(0, 3, 31))):
        value = hits - slope * masses
        assert value[prefixes].min() <= value.min() + 1e-14 * max(1.0, slope)
    best = optimum(problem)
    assert best.acceptance == pytest.approx(optimal_acceptance(problem), abs=1e-13)
    assert abs(best.gap) <= 1e-13


def test_the_optimum_in_closed_form() -> None:
    # p(hub), and what a single draft from the law of the other token can serve of the rest.
    p, q = np.array([0.3, 0.1, 0.6]), np.array([0.5, 0.3, 0.2])
    best = optimum(Problem(p, HubPairs(q)))
    assert best.acceptance == pytest.approx(0.3 + min(0.1, 0.6) + min(0.6, 0.4), abs=1e-15)


def test_sample_frequencies_follow_prob() -> None:
    scheme = HubPairs(LAWS["zeros"])
    drafts = scheme.sample(np.random.default_rng(0), 20_000)
    assert drafts.shape == (20_000, 2)
    possible, probabilities = scheme.support()
    counts = np.array([(drafts == pair).all(axis=1).sum() for pair in possible])
    assert counts.sum() == 20_000  # nothing impossible was drawn
    assert chisquare(counts, 20_000 * probabilities).pvalue > 1e-3  # fixed seed
    assert scheme.sample(np.random.default_rng(0)).shape == (2,)

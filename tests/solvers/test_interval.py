import itertools
import pickle

import numpy as np
import pytest

import otspec
from otspec import IID, Problem
from otspec.kernels.interval.places import Places
from otspec.kernels.interval.plan_figures import weights_are_chances
from otspec.kernels.quadrature import quadrature
from otspec.plans import Pick
from otspec.plans.place_rule import PlaceRule
from otspec.schemes.iid import power_increments
from tests import laws
from tests.each import each
from tests.laws import Kind, softmax
from tests.oracles import Floats, Ints, check_plan, law_of_the_pick, optimal_acceptance

EXACT = 1e-12

FAMILIES: dict[str, Kind] = {
    "model": laws.model,
    "dirichlet": laws.dirichlet(0.05, 0.5, 2.0),
    "same": laws.same(laws.model),
    "nearly-same": laws.close(laws.model, 1e-9, 3e-16),
    "peaked": laws.one_likely(laws.model),
    "tails": laws.smallest_floats(laws.model),
    "ties": laws.tied_ratios,
    "zeros": laws.zeros(laws.model, 0.3, 0.95),
    "disjoint": laws.disjoint(laws.model),
    "one-token": laws.one_of(laws.point_target(laws.model), laws.point_draft(laws.model)),
    "float32": laws.float32(laws.model),
    "lumpy": laws.lumpy,
}


def _problem(family: str, seed: int, vocab: int, n: int) -> Problem:
    p, q = FAMILIES[family](np.random.default_rng([seed, vocab, n, *family.encode()]), vocab)
    problem: Problem = pickle.loads(pickle.dumps(Problem(p, IID(q, n))))  # as another process gets it
    return problem


def _plan(problem: Problem) -> tuple[Pick, Places]:
    plan = otspec.solve(problem, "interval").plan
    assert isinstance(plan, Pick)
    assert isinstance(plan.rule, PlaceRule)
    assert not problem.p.flags.writeable  # or all would be compiled once more
    return plan, plan.rule.places


@pytest.mark.parametrize("family", FAMILIES)
@each(seed=range(30))
def test_enumeration(family: str, seed: int) -> None:
    problem = _problem(family, seed, vocab=1 + seed % 5, n=1 + seed // 2 % 4)
    plan, _ = _plan(problem)
    assert plan.acceptance == pytest.approx(optimal_acceptance(problem), abs=EXACT)
    assert plan.deviation + abs(plan.gap) <= EXACT
    check_plan(plan)
    assert np.abs(law_of_the_pick(problem.scheme, plan.rule) - plan.proposal).sum() <= 1e-13 * problem.vocab


@pytest.mark.parametrize("family", FAMILIES)
@each(size=[(1, 20), (2, 5), (4, 3), (8, 2), (64, 1), (9, 2), (130, 3), (1000, 17), (3000, 4)])
def test_the_kernel_measures_what_the_plan_itself_would(family: str, size: tuple[int, int]) -> None:
    plan, places = _plan(_problem(family, 3, *size))
    assert isinstance(plan.problem.scheme, IID)
    rule = PlaceRule(plan.problem.scheme, places)
    anew = Pick(plan.problem, rule, plan.bound)
    assert np.array_equal(plan.proposal, rule.proposal)
    assert (plan.acceptance, plan.deviation) == (anew.acceptance, anew.deviation)


def test_the_kernel_sees_weights_that_are_no_probabilities() -> None:
    places = _plan(Problem([0.5, 0.3, 0.2], IID([0.2, 0.3, 0.5], 3)))[1]
    drawn = np.array([[0.1, 0.2, 0.6]])  # of the first place, twice, and the second, which exchange with each other
    looked_at = np.empty(4), drawn, *quadrature(3)
    assert weights_are_chances(places, *looked_at)
    assert not weights_are_chances(places._replace(share=places.share * np.nan), *looked_at)
    twice = places._replace(first_contribution=2 * places.first_contribution)
    assert not weights_are_chances(twice, *looked_at)


def test_a_tuple_of_more_drafts_than_are_listed() -> None:
    plan = _plan(Problem([0.5, 0.5], IID([1.0, 0.0], 3000)))[0]
    assert (plan.acceptance, plan.deviation) == (0.5, 0.0)
    assert Pick(plan.problem, plan.rule, plan.bound).deviation == 0.0


def _contributions(places: Places, h: int) -> tuple[Ints, Floats]:
    """Ranks and contributions of the members of an exchange."""
    recipients = np.arange(places.first_recipient[h], places.last_recipient[h] + 1)
    parts = np.where(places.exchange[recipients] == h, places.size[recipients] * places.share[recipients], 0.0)
    if recipients.size:
        parts[-1] = places.last_contribution[h]
        parts[0] = places.first_contribution[h]
    donors = np.arange(places.first_donor[h], places.donors_end[h])
    return np.append(recipients, donors), np.append(parts, places.size[donors] * places.share[donors])


def _realised(places: Places, measure: Floats) -> Floats:
    """Law of the pick by rank, from the shares of the places and the measures of the places alone."""
    density = measure / places.size
    law = (1 - places.share) * measure
    for h in range(places.threshold.size):
        members, parts = _contributions(places, h)
        if parts.sum() > 0:
            law[members] += parts * (parts @ density[members]) / parts.sum()
    return law


def _prefix_bound(problem: Problem) -> float:
    """min over prefixes H of the order of p/q of P(some draft outside H) + p(H): alpha*, by sorting alone."""
    assert isinstance(problem.scheme, IID)
    tokens = np.flatnonzero(problem.scheme.q)
    p, q = problem.p[tokens], problem.scheme.q[tokens]
    with np.errstate(over="ignore"):
        order = np.argsort(p / q)
    inside = np.append(0.0, np.cumsum(p[order]))
    outside = np.append(np.minimum(np.cumsum(q[order][::-1])[::-1], 1 - 1e-16), 0.0)
    return float((inside - np.expm1(problem.n * np.log1p(-outside))).min())


@pytest.mark.parametrize("family", FAMILIES)
@each(size=[*itertools.product((300, 20_000), (1, 2, 5, 64)), (256_000, 4)], seed=range(2))
def test_any_size(family: str, size: tuple[int, int], seed: int) -> None:
    vocab, n = size
    problem = _problem(family, seed, vocab, n)
    plan, places = _plan(problem)
    assert abs(plan.gap) <= 1e-10
    assert plan.deviation <= EXACT
    assert plan.proposal.sum() == pytest.approx(1.0, abs=1e-11)
    assert _prefix_bound(problem) - plan.acceptance <= 1e-10
    law = _realised(places, power_increments(places.size, n))
    assert np.abs(law - places.proposal).sum() <= EXACT * max(1, n * vocab / 1e4)


@each(n=(2, 10))
def test_the_proposal_is_right_for_every_token(n: int) -> None:
    """One that claims less than its law gives away lets too much through.

    Measured as differences of powers, tokens below an ulp of what lies under them would have no digit right.
    """
    rng = np.random.default_rng(5)
    logits = 3.5 * rng.laplace(size=20_000)
    plan, places = _plan(Problem(softmax(logits), IID(softmax(logits + 0.4 * rng.standard_normal(logits.size)), n)))
    true = _realised(places, power_increments(places.size, n))
    assert np.abs(places.proposal / true - 1).max() <= 1e-9
    assert abs(plan.gap) <= EXACT

"""What every draft scheme owes to the rest, by enumeration of all tuples and all token sets."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from otspec import IID, DraftScheme, Independent, ProblemError, WithoutReplacement
from tests.each import each
from tests.instances import BY_PREFIXES, VARIED, Instance, sample_of_each
from tests.oracles import Ints, all_tuples, hit_function, mass_function

ROUNDING = 1e-14
"""Sums of at most 216 products of probabilities."""

LONG = np.full(1000, 1e-3)

varied = each(instance=VARIED)


def orders(vocab: int) -> list[Ints]:
    """Every order of up to four tokens, some of more."""
    rng = np.random.default_rng(0)
    return [rng.permutation(vocab) for _ in range(min(math.factorial(vocab), 24))]


@varied
def test_probabilities_add_up(instance: Instance) -> None:
    scheme = instance.problem.scheme
    assert scheme.prob(all_tuples(scheme)).sum() == pytest.approx(1.0, abs=ROUNDING)
    assert scheme.prob(all_tuples(scheme)[0]).shape == ()


@varied
def test_support_lists_every_tuple_that_can_occur(instance: Instance) -> None:
    scheme = instance.problem.scheme
    drafts, probabilities = scheme.support()
    tuples = all_tuples(scheme)
    possible = tuples[scheme.prob(tuples) > 0]
    assert {tuple(row) for row in drafts.tolist()} == {tuple(row) for row in possible.tolist()}
    assert len(drafts) == len(possible) <= scheme.support_size()
    assert len(scheme.draft_sets()) <= scheme.set_count()
    assert_array_equal(probabilities, scheme.prob(drafts))
    assert set(np.unique(drafts)) <= set(scheme.reachable().tolist())


@varied
def test_hit_function_is_submodular(instance: Instance) -> None:
    hits = hit_function(instance.problem.scheme)
    a, b = np.meshgrid(np.arange(hits.size), np.arange(hits.size))
    assert (hits[a] + hits[b] - hits[a | b] - hits[a & b]).min() >= -ROUNDING


@varied
def test_hit_chain_is_the_hit_function_of_prefixes(instance: Instance) -> None:
    scheme = instance.problem.scheme
    hits = hit_function(scheme)
    for order in orders(scheme.vocab):
        chain = scheme.hit_chain(order)
        assert_allclose(chain, hits[np.concatenate(([0], np.cumsum(1 << order)))], rtol=0, atol=ROUNDING)
        assert chain[0] == 0
        assert chain[-1] == pytest.approx(1.0, abs=ROUNDING)
        assert (np.diff(chain) >= 0).all()


@varied
def test_priority_law_is_the_law_of_the_best_placed_draft(instance: Instance) -> None:
    scheme = instance.problem.scheme
    tuples = all_tuples(scheme)
    for order in orders(scheme.vocab):
        best = order[np.argsort(order)[tuples].min(axis=1)]
        expected = np.bincount(best, weights=scheme.prob(tuples), minlength=scheme.vocab)
        assert_allclose(scheme.priority_law(order), expected, rtol=0, atol=ROUNDING)


@varied
def test_first_draft_and_inclusion_are_those_of_enumeration(instance: Instance) -> None:
    scheme = instance.problem.scheme
    tuples = all_tuples(scheme)
    masses = scheme.prob(tuples)
    tokens = np.arange(scheme.vocab)[:, None]
    first, inclusion = scheme.first_draft(), scheme.inclusion()
    if first is not None:
        assert_allclose(first, (tuples[:, 0] == tokens) @ masses, rtol=0, atol=ROUNDING)
    if inclusion is not None:
        assert_allclose(inclusion, (tuples == tokens[..., None]).any(axis=2) @ masses, rtol=0, atol=ROUNDING)


def test_first_drafts_and_inclusion_are_mostly_known() -> None:
    schemes = [instance.problem.scheme for instance in VARIED]
    assert all(scheme.first_draft() is not None for scheme in schemes)
    unknown = [scheme for scheme in schemes if scheme.inclusion() is None]
    assert all(isinstance(scheme, WithoutReplacement) and scheme.n > 2 for scheme in unknown)


@each(instance=BY_PREFIXES)
def test_prefixes_serve_every_slope(instance: Instance) -> None:
    # For each slope s, a prefix attains the minimum of f(A) - s p(A) over all A: the minorant has the same segments.
    problem = instance.problem
    order = problem.scheme.prefix_order(problem.p)
    assert order is not None
    assert_array_equal(np.sort(order), np.arange(problem.vocab))
    hits, masses = hit_function(problem.scheme), mass_function(problem.p)
    prefixes = np.concatenate(([0], np.cumsum(1 << order)))
    for slope in np.concatenate((np.geomspace(1e-12, 1e12, 49), np.linspace(0, 3, 31))):
        value = hits - slope * masses
        assert value[prefixes].min() <= value.min() + ROUNDING * max(1.0, slope)


@each(instance=sample_of_each(3))
def test_sample_frequencies_follow_prob(instance: Instance) -> None:
    scheme = instance.problem.scheme
    rng = np.random.default_rng(0)
    assert scheme.sample(rng).shape == (scheme.n,)
    drafts = scheme.sample(rng, 5000)
    assert drafts.shape == (5000, scheme.n)
    weights = scheme.vocab ** np.arange(scheme.n)
    possible, probabilities = scheme.support()
    order = np.argsort(possible @ weights)
    row = order[np.searchsorted((possible @ weights)[order], drafts @ weights) % order.size]
    assert_array_equal(possible[row], drafts)  # nothing impossible was drawn
    counts = np.bincount(row, minlength=len(possible))
    # Six standard deviations of a binomial count, and three for the skew of rare ones: fixed seed.
    assert (np.abs(counts - 5000 * probabilities) <= 6 * np.sqrt(5000 * probabilities * (1 - probabilities)) + 3).all()


@each(scheme=(IID(LONG, 10), WithoutReplacement(LONG, 10), Independent(np.stack([LONG] * 10))))
def test_what_memory_cannot_hold_is_not_listed(scheme: DraftScheme) -> None:
    with pytest.raises(
        ProblemError, match=r"about 10\*\*\d+ tuples of 10 tokens, too many to list .*truncate the drafts"
    ):
        scheme.support()
    with pytest.raises(ProblemError, match=r"of 10 tokens, too many to list"):
        scheme.draft_sets()

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from otspec import Problem, ProblemError, WithoutReplacement
from otspec.kernels.arrivals import Nodes, hit_increments
from tests.each import each
from tests.instances import P4, Q4, SMALL, Instance, peaked_problem
from tests.oracles import Floats, Ints, all_tuples, hit_function, mass_function, set_masses

LAWS: dict[str, Floats] = {
    "plain": Q4,
    "zeros": np.array([0.0, 0.5, 0.0, 0.3, 0.2]),
    "exactly-three": np.array([0.2, 0.0, 0.7, 0.1]),
    "ties": np.full(5, 0.2),
    "halves": np.array([0.5, 0.5 - 1e-20, 1e-20, 0.0]),
    "giant": np.array([1e-9, 1 - 1e-8, 2e-9, 7e-9]),
    "two-giants": np.array([0.5, 1e-30, 0.5, 2e-30, 1e-40]),
    "tail": np.array([1e-300, 1 - 1e-12, 1e-12, 1e-290]),
    "smallest-floats": np.array([5e-324, 1.0, 1e-323, 1e-310]),
}


every_law = each(q=LAWS, n=(1, 2, 3))


def exact_prob(q: Floats, drafts: Ints) -> Fraction:
    """In rational arithmetic: the next token among those not drawn yet."""
    left = [Fraction(mass) for mass in q.tolist()]
    probability = Fraction(1)
    for token in drafts.tolist():
        if left[token] == 0:
            return Fraction(0)
        probability *= left[token] / sum(left)
        left[token] = Fraction(0)
    return probability


def exact_priority_law(q: Floats, n: int, order: Ints) -> list[float]:
    law = [Fraction(0)] * q.size
    rank = np.argsort(order)
    for drafts in itertools.permutations(range(q.size), n):
        law[min(drafts, key=lambda token: rank[token])] += exact_prob(q, np.array(drafts))
    return [float(mass) for mass in law]


@each(wrong=(0, -1, 2.0, True, "2", None))
def test_n_is_an_integer_of_at_least_one(wrong: Any) -> None:
    with pytest.raises(ProblemError, match="pass an integer >= 1"):
        WithoutReplacement(Q4, wrong)


@pytest.mark.parametrize(("law", "n"), [("zeros", 4), ("exactly-three", 4), ("plain", 5)])
def test_refuses_more_drafts_than_there_are_tokens_to_draft(law: str, n: int) -> None:
    possible = np.count_nonzero(LAWS[law])
    with pytest.raises(ProblemError, match=f"n is {n}, but q > 0 for {possible} tokens only.*draw fewer, or soften q"):
        WithoutReplacement(LAWS[law], n)


def test_a_draft_law_that_underflows_inside_the_top_k_counts_what_is_left() -> None:
    # Logits 800 apart: the softmax of a top-k of 3 holds a single token in float64.
    q = np.exp([0.0, -800.0, -801.0])
    assert WithoutReplacement(q, 1).n == 1
    with pytest.raises(ProblemError, match="q > 0 for 1 tokens only"):
        WithoutReplacement(q, 2)


@every_law
def test_prob_is_that_of_rational_arithmetic(q: Floats, n: int) -> None:
    scheme = WithoutReplacement(q, n)
    tuples = all_tuples(scheme)
    expected = [float(exact_prob(q, drafts)) for drafts in tuples]
    assert_allclose(scheme.prob(tuples), expected, rtol=1e-14, atol=1e-320)
    assert scheme.prob(tuples[0]).shape == ()
    assert scheme.prob(tuples).sum() == pytest.approx(1.0, abs=1e-14)


@every_law
def test_priority_law_is_that_of_rational_arithmetic(q: Floats, n: int) -> None:
    # Relative: a sum of positive terms, so the tokens of 1e-300 are as right as the others (below 1e-308, less so).
    scheme = WithoutReplacement(q, n)
    for order in itertools.islice(itertools.permutations(range(q.size)), 0, None, 5):
        expected = exact_priority_law(q, n, np.array(order))
        assert_allclose(scheme.priority_law(np.array(order)), expected, rtol=2e-12, atol=1e-320)


@every_law
def test_hit_chain_is_the_hit_function_of_prefixes(q: Floats, n: int) -> None:
    scheme = WithoutReplacement(q, n)
    hits = hit_function(scheme)
    for order in itertools.permutations(range(q.size)):
        hit_chain = scheme.hit_chain(np.array(order))
        assert_allclose(hit_chain, hits[np.concatenate(([0], np.cumsum(1 << np.array(order))))], rtol=0, atol=1e-13)
        assert hit_chain[0] == 0
        assert hit_chain[-1] == 1
        assert (np.diff(hit_chain) >= 0).all()


@each(n=(4, 5, 6, 7))
def test_many_drafts_of_few_tokens(n: int) -> None:
    rng = np.random.default_rng(n)
    q = rng.dirichlet(np.full(7, 0.5))
    scheme = WithoutReplacement(q, n)
    order = rng.permutation(7)
    assert_allclose(scheme.priority_law(order), exact_priority_law(scheme.q, n, order), rtol=1e-13, atol=0)


@each(instance=[i for i in SMALL if isinstance(i.problem.scheme, WithoutReplacement)])
def test_prefix_order_serves_the_bound_and_every_segment_of_the_minorant(instance: Instance) -> None:
    problem = instance.problem
    scheme = problem.scheme
    order = scheme.prefix_order(problem.p)
    assert order is not None
    assert_array_equal(np.sort(order), np.arange(problem.vocab))
    codes = np.concatenate(([0], np.cumsum(1 << order)))
    hits, masses = hit_function(scheme), mass_function(problem.p)
    # A segment of slope s ends in a minimiser of f - s p: for every s, some prefix is one.
    slopes = np.concatenate(([0.0, 1.0], np.geomspace(1e-3, 1e3, 61)))
    best = (hits[:, None] - slopes * masses[:, None]).min(axis=0)
    by_prefix = (hits[codes, None] - slopes * masses[codes, None]).min(axis=0)
    assert_allclose(by_prefix, best, rtol=0, atol=1e-11)  # slopes up to 1000


@each(n=(2, 3, 4, 8, 20))
def test_a_thousand_tokens_agree_with_a_finer_grid(n: int) -> None:
    problem = peaked_problem(1000, 1)
    q = problem.scheme.priority_law(np.arange(1000))  # of one draft: q itself
    scheme = WithoutReplacement(q, n)
    order = scheme.prefix_order(problem.p)
    fine = Nodes.of(q, n, per_octave=3 * scheme.nodes.per_octave + 1, tail=1e-25)
    expected = np.empty(1000)
    expected[order] = hit_increments(q[order], scheme.heavy[order], n, fine)
    assert_allclose(scheme.priority_law(order), expected, rtol=1e-13, atol=0)
    assert expected.sum() == pytest.approx(1.0, abs=1e-13)


def test_a_vocabulary_of_128256_tokens() -> None:
    problem = peaked_problem(128_256, 1)
    q = problem.scheme.priority_law(np.arange(problem.vocab))
    law = WithoutReplacement(q, 4).priority_law(np.argsort(-problem.p / q))
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    assert np.count_nonzero(law) == problem.vocab - 3  # whoever is among the last three is never the best of four


def test_refuses_what_leaves_the_range_of_float64() -> None:
    scheme = WithoutReplacement(np.full(100_000, 1e-5), 1000)
    with pytest.raises(ProblemError, match="n is 1000 of 100000 tokens, too many for float64"):
        scheme.hit_chain(np.arange(100_000))


@every_law
def test_reachable(q: Floats, n: int) -> None:
    assert_array_equal(WithoutReplacement(q, n).reachable(), np.flatnonzero(q > 0))


def test_compact_renumbers_and_adds_a_token_never_drafted() -> None:
    compact = WithoutReplacement(LAWS["zeros"], 2).compact()
    assert_allclose(compact.q, [0.5, 0.3, 0.2, 0.0], rtol=1e-15)
    assert compact.n == 2


@every_law
def test_draft_sets_are_those_of_enumeration(q: Floats, n: int) -> None:
    scheme = WithoutReplacement(q, n)
    sets = scheme.draft_sets()
    assert len(sets) <= scheme.set_count() == math.comb(np.count_nonzero(q), n)
    found = {tuple(row.tolist()): mass for row, mass in zip(sets.tokens, sets.mass, strict=True)}
    expected = set_masses(scheme)
    assert expected.keys() == found.keys()
    for key, mass in found.items():
        assert mass == pytest.approx(expected[key], rel=1e-13, abs=1e-320)


def test_sample_draws_the_smallest_floats_when_nothing_else_is_left() -> None:
    drafts = WithoutReplacement(np.array([5e-324, 1.0, 0.0]), 2).sample(np.random.default_rng(0), 50)
    assert_array_equal(drafts, np.tile([1, 0], (50, 1)))


def test_sample_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = WithoutReplacement(P4, 3).sample(np.random.default_rng(0), 100)
    monkeypatch.setattr("otspec.schemes.without_replacement.CHUNK", 12)
    assert_array_equal(WithoutReplacement(P4, 3).sample(np.random.default_rng(0), 100), whole)
    assert WithoutReplacement(P4, 3).sample(np.random.default_rng(0)).shape == (3,)


def test_one_draft_is_an_ordinary_draw() -> None:
    scheme = WithoutReplacement(Q4, 1)
    assert_array_equal(scheme.priority_law(np.array([2, 0, 1, 3])), scheme.q)
    assert Problem(P4, scheme).n == 1

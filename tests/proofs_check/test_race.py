"""List matching: its integrals against the race that they are of, and against enumeration."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import IID, Problem
from otspec.proofs_check.race import Race
from tests.each import each
from tests.oracles import Floats, optimal_acceptance

ROUNDING = 1e-12


def pairs() -> list[tuple[Floats, Floats]]:
    """Ordinary laws, and zeros on either side, ties, equal and disjoint ones, point masses, tails of 1e-300."""
    rng = np.random.default_rng(0)
    found = [tuple(rng.dirichlet(np.ones(size), 2)) for size in (2, 3, 4)]
    law = rng.dirichlet(np.ones(3))
    found += [
        (np.array([0.5, 0.5, 0.0, 0.0]), np.array([0.0, 0.25, 0.25, 0.5])),
        (np.array([0.25, 0.5, 0.25]), np.array([0.5, 0.25, 0.25])),
        (law, law.copy()),
        (np.array([1.0, 0.0]), np.array([0.3, 0.7])),
        (np.array([0.3, 0.7]), np.array([1.0, 0.0])),
        (np.array([0.4, 0.6, 0.0, 0.0]), np.array([0.0, 0.0, 0.4, 0.6])),
    ]
    tail = 10.0 ** np.array([[0.0, -3.0, -12.0, -300.0], [-300.0, -1.0, 0.0, -12.0]])
    return [*found, tuple(tail / tail.sum(axis=1, keepdims=True))]


@each(number=range(len(pairs())), n=(1, 2, 3))
def test_it_is_lossless_and_accepts_what_it_says(number: int, n: int) -> None:
    problem = Problem(pairs()[number][0], IID(pairs()[number][1], n))
    race = Race(problem.p, problem.scheme.q, n)  # type: ignore[attr-defined]
    output, hits = np.zeros(problem.vocab), 0.0
    for drafts, chance in zip(*problem.scheme.support(), strict=True):
        law = race.conditional(drafts)
        assert law.sum() == pytest.approx(1.0, abs=ROUNDING)
        output += chance * law
        hits += chance * float(law[np.unique(drafts)].sum())
    assert_allclose(output, problem.p, atol=ROUNDING)
    assert race.acceptance == pytest.approx(hits, abs=ROUNDING)
    assert race.acceptance <= optimal_acceptance(problem) + ROUNDING


@each(number=range(len(pairs())))
def test_one_draft_is_the_gumbel_coupling(number: int) -> None:
    """P(match) = sum over x of 1 / sum over i of max(p_i / p_x, q_i / q_x)."""
    p, q = pairs()[number]
    both = np.flatnonzero((p > 0) & (q > 0))
    coupled = sum(1.0 / np.maximum(p / p[x], q / q[x]).sum() for x in both)
    race = Race(p, q, 1)
    assert race.acceptance == pytest.approx(coupled, abs=ROUNDING)


def test_the_law_given_the_drafts_is_that_of_the_race() -> None:
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet(np.ones(3), 2)
    race = Race(p, q, 2)
    times = rng.exponential(size=(100_000, 2, 3))
    drafts, output = (times / q).argmin(axis=2), (times.min(axis=1) / p).argmin(axis=1)
    for tuple_ in itertools.product(range(3), repeat=2):
        seen = np.bincount(output[(drafts == tuple_).all(axis=1)], minlength=3)
        expected = race.conditional(np.array(tuple_)) * seen.sum()
        often = expected >= 5
        chi2 = ((seen - expected)[often] ** 2 / expected[often]).sum()
        assert chi2 <= often.sum() + 5 * np.sqrt(2 * often.sum()) + 5, tuple_


def test_more_drafts_accept_more() -> None:
    p, q = pairs()[2]
    found = [Race(p, q, n).acceptance for n in (1, 2, 4, 8, 64)]
    assert np.all(np.diff(found) > 0)
    assert found[-1] > 0.95

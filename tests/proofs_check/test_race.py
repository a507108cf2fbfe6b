"""List matching: its integrals against the race that they are of, and against enumeration."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import IID, Problem
from otspec.proofs_check.race import Race
from tests.each import each
from tests.instances import PAIRS
from tests.laws import Pair
from tests.oracles import optimal_acceptance

ROUNDING = 1e-12


@each(pair={name: pair for name, pair in PAIRS.items() if pair[0].size <= 4}, n=(1, 2, 3))
def test_it_is_lossless_and_accepts_what_it_says(pair: Pair, n: int) -> None:
    problem = Problem(pair[0], IID(pair[1], n))
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
    p, q = np.random.default_rng(0).dirichlet(np.ones(4), 2)
    found = [Race(p, q, n).acceptance for n in (1, 2, 4, 8, 64)]
    assert np.all(np.diff(found) > 0)
    assert found[-1] > 0.95

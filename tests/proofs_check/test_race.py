"""List matching: its integrals against enumeration."""

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

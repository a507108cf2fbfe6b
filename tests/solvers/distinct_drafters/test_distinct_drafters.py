"""The law of a pick by Luce weights, and the weights that are fitted."""

import numpy as np
from numpy.testing import assert_allclose

from otspec import IID, Independent, Problem, solve
from otspec.solvers import DistinctDrafters
from otspec.solvers.distinct_drafters.rule import LuceRule
from tests.each import each
from tests.instances import SMALL, Instance
from tests.oracles import law_of_the_pick

DRAWN = [instance for instance in SMALL if isinstance(instance.problem.scheme, IID | Independent)][::4]


@each(spread=(0.0, 3.0, 30.0), instance=DRAWN)
def test_law_of_the_pick_is_that_of_enumeration(instance: Instance, spread: float) -> None:
    scheme = instance.problem.scheme
    assert isinstance(scheme, IID | Independent)
    odds = np.zeros(scheme.vocab)
    level = np.random.default_rng(3).normal(size=scheme.reachable().size) * spread
    odds[scheme.reachable()] = np.exp(level - level.max())
    rule = LuceRule(scheme, odds)
    assert_allclose(rule.proposal, law_of_the_pick(scheme, rule), rtol=0, atol=2e-14)


@each(seed=range(6))
def test_two_drafts_without_a_token_in_common_do_not_oscillate(seed: int) -> None:
    # Both drafts' tokens correct the same mismatch; with full steps they overshoot for ever.
    rng = np.random.default_rng(seed)
    first, second = rng.dirichlet(np.ones(2), size=2)
    q = np.block([[first, np.zeros(2)], [np.zeros(2), second]])
    solve(Problem(0.9 * q.mean(axis=0) + 0.1 * rng.dirichlet(np.full(4, 0.5)), Independent(q)), DistinctDrafters())

"""The law of a pick by Luce weights, and the weights that are fitted."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import IID, Independent, Problem, Status, solve
from otspec.plans import Pick
from otspec.solvers import DistinctDrafters
from otspec.solvers.distinct_drafters.rule import LuceRule
from tests.each import each
from tests.instances import SMALL, Instance, peaked_problem
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


@each(n=(2, 4, 9))
def test_agrees_with_interval_on_larger_problems(n: int) -> None:
    problem = peaked_problem(200, n)
    fitted, exact = solve(problem, DistinctDrafters()).plan, solve(problem, "interval").plan
    assert fitted.acceptance == pytest.approx(exact.acceptance, abs=2e-9)
    assert fitted.bound == pytest.approx(exact.bound, abs=2e-9)


def test_certifies_distinct_laws_beyond_any_list_of_draft_sets() -> None:
    rng = np.random.default_rng(5)
    logits = 2 * rng.laplace(size=400)
    laws = np.exp(logits + rng.normal(size=(6, 400)) * 0.5)
    problem = Problem(np.exp(logits) / np.exp(logits).sum(), Independent(laws / laws.sum(axis=1, keepdims=True)))
    plan = solve(problem, DistinctDrafters()).plan
    assert isinstance(plan, Pick)
    assert abs(plan.gap) <= 1e-9
    assert plan.proposal.sum() == pytest.approx(1, abs=1e-12)
    drafts = problem.scheme.sample(rng)
    assert plan.conditional(drafts).sum() == pytest.approx(1, abs=1e-12)


def test_a_plan_that_stops_early_is_lossless_and_knows_its_gap() -> None:
    problem = peaked_problem(200, 2)
    result = solve(problem, DistinctDrafters(max_iterations=1), strict=False)
    assert result.status is Status.FEASIBLE
    assert result.plan is not None
    best = solve(problem, "interval").plan
    assert result.plan.acceptance < best.acceptance - 1e-9
    assert result.plan.bound >= best.acceptance - 1e-12
    assert result.plan.deviation <= 1e-12


@each(seed=range(6))
def test_two_drafts_without_a_token_in_common_do_not_oscillate(seed: int) -> None:
    # Both drafts' tokens correct the same mismatch; with full steps they overshoot for ever.
    rng = np.random.default_rng(seed)
    first, second = rng.dirichlet(np.ones(2), size=2)
    q = np.block([[first, np.zeros(2)], [np.zeros(2), second]])
    solve(Problem(0.9 * q.mean(axis=0) + 0.1 * rng.dirichlet(np.full(4, 0.5)), Independent(q)), DistinctDrafters())

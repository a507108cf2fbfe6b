"""Drafts of another law than the rule is lossless for."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import IID, Problem, Status, Table, WithoutReplacement, solve
from otspec.plans import BiasedPlan
from otspec.solvers import RRS
from otspec.solvers.rules.kseq import best_gamma
from tests.instances import P4, Q4, Instance
from tests.oracles import enumerate_plan, optimal_acceptance
from tests.solvers.rules import published
from tests.solvers.rules.test_every_rule import ROUNDING, iid, plan_of, without_replacement


@pytest.mark.parametrize("name", ["rsd", "rrs", "kseq"])
@iid
def test_the_true_bias_is_measured(instance: Instance, name: str) -> None:
    assert isinstance(instance.problem.scheme, IID)
    p, scheme = instance.problem.p, instance.problem.scheme
    q = scheme.q
    problem = Problem(p, scheme if name == "rsd" else without_replacement(scheme))
    simulation = {"rsd": published.rsd, "rrs": published.rrs, "kseq": published.kseq(best_gamma(p, q, problem.n))}[name]
    plan = solve(problem, f"{name}:allow_biased=true").plan
    assert isinstance(plan, BiasedPlan)
    output, accepted = np.zeros(problem.vocab), 0.0
    for drafts, probability in zip(*problem.scheme.support(), strict=True):
        outcome = simulation(p, q, drafts)
        output += probability * np.array(outcome.law)
        accepted += probability * outcome.accepted
    assert plan.deviation == pytest.approx(np.abs(output - p).sum(), abs=ROUNDING)
    assert plan.acceptance == pytest.approx(accepted, abs=ROUNDING)
    assert plan.membership == pytest.approx(enumerate_plan(plan).membership, abs=ROUNDING)
    # A rule that deviates can accept more than the optimum, by no more than half of what it deviates.
    assert plan.membership <= optimal_acceptance(problem) + plan.deviation / 2 + ROUNDING


def test_insisting_on_the_right_law_in_other_clothes_is_lossless() -> None:
    drafts, probabilities = WithoutReplacement(Q4, 3).support()
    problem = Problem(P4, Table(drafts, probabilities, 4))
    plan = solve(problem, "rsd:allow_biased=true").plan
    assert plan is not None
    assert plan.deviation <= ROUNDING
    assert plan.acceptance == pytest.approx(
        plan_of(Problem(P4, WithoutReplacement(Q4, 3)), "rsd").acceptance, abs=1e-14
    )


def test_wrong_drafts_raise_acceptance_beyond_the_optimum() -> None:
    # The likeliest two tokens of q, tested as if drawn from q: token 0 always passes, and is all that is ever put out.
    q = np.array([0.4, 0.4, 0.1, 0.1])
    plan = RRS(allow_biased=True).biased_plan(Problem(P4, Table(np.array([[0, 1]]), np.ones(1), 4)), q)
    assert plan.acceptance == pytest.approx(1.0, abs=1e-15)
    assert plan.bound == pytest.approx(0.7, abs=1e-15)
    assert_allclose(plan.output_law(), [1.0, 0.0, 0.0, 0.0], rtol=0, atol=1e-15)
    assert plan.deviation == pytest.approx(1.2, abs=1e-15)
    assert plan.max_deviation == 2.0


def test_enumeration_has_a_size_limit() -> None:
    problem = Problem(np.full(500, 0.002), WithoutReplacement(np.full(500, 0.002), 4))
    result = solve(problem, "rrs:allow_biased=true", strict=False)
    assert result.status is Status.LIMIT
    assert "output probabilities exceed max_cells = 20,000,000" in result.message

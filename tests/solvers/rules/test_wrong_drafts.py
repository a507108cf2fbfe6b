"""Drafts of another law than the rule is lossless for."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import Problem, Status, Table, WithoutReplacement, solve
from otspec.solvers import RRS
from tests.instances import P4, Q4
from tests.solvers.rules.test_every_rule import ROUNDING, plan_of


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

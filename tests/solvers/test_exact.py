"""Every exact solver, on every problem small enough to know the answer by enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import Problem, Result, Status, solve
from otspec.catalogue import get
from otspec.tolerances import TOL
from tests.instances import KNOWN, SMALL, Instance, Known
from tests.oracles import enumerate_plan, optimal_acceptance

SUM_TOL = 1e-12
"""A conditional law adds up some ten floats."""


def solve_or_skip(problem: Problem, spelling: str) -> Result:
    if reason := get(spelling).supports(problem):
        pytest.skip(f"{spelling}: {reason}")
    return solve(problem, spelling, strict=False)


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_known_answer(exact_spelling: str, known: Known) -> None:
    result = solve_or_skip(known.problem, exact_spelling)
    assert result.plan is not None, result.message
    assert result.plan.acceptance == pytest.approx(known.acceptance, abs=TOL), known.why


@pytest.mark.parametrize("instance", SMALL, ids=lambda instance: instance.name)
def test_plan_is_optimal_and_lossless_by_enumeration(exact_spelling: str, instance: Instance) -> None:
    problem = instance.problem
    result = solve_or_skip(problem, exact_spelling)
    assert result.status is Status.OPTIMAL, result.message
    plan = result.plan
    assert plan is not None
    best = optimal_acceptance(problem)
    assert plan.acceptance == pytest.approx(best, abs=TOL)
    assert plan.bound == pytest.approx(best, abs=TOL)

    enumeration = enumerate_plan(plan)
    assert np.abs(enumeration.output - problem.p).sum() <= TOL
    assert enumeration.membership == pytest.approx(best, abs=TOL)
    assert enumeration.lowest >= 0
    assert enumeration.normalisation <= SUM_TOL
    assert_allclose(plan.output_law(), enumeration.output, rtol=0, atol=SUM_TOL)


def test_the_problems_are_many_and_small() -> None:
    # The guarantee above is only as good as its problems.
    assert len(SMALL) >= 300
    assert max(instance.problem.vocab for instance in SMALL) == 6
    assert max(instance.problem.n for instance in SMALL) == 3

"""Every exact solver, on every problem small enough to know the answer by enumeration."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import Problem, Status, solve
from otspec.catalogue import get
from otspec.plans import Pick
from otspec.tolerances import TOL
from tests.each import check_each
from tests.instances import BY_FAMILY, SMALL, Instance
from tests.oracles import enumerate_plan, law_of_the_pick, optimal_acceptance
from tests.spellings import exact_spellings, installed, skipped

SUM_TOL = 1e-12
"""A conditional law adds up some ten floats."""
PICK_TOL = 1e-13
"""The law of a pick, of at most 216 products."""

AT_LEAST = {"closed_form": 150, "interval": 250, "luce": 250, "spechub": 40}
"""How many of the problems a solver for some kinds of drafts has to meet; every other solver takes all of them."""


def takes(spelling: str, problem: Problem) -> bool:
    return get(spelling).supports(problem) is None


def solvers_and_families() -> list[Any]:
    """A solver with each family of problems that it takes one of; one that is not installed only once."""
    sets: list[Any] = []
    for spelling in exact_spellings():
        if not installed(spelling):
            sets.append(skipped(spelling, ""))
            continue
        sets += [
            pytest.param(spelling, family, id=f"{spelling}-{family}")
            for family, instances in BY_FAMILY.items()
            if any(takes(spelling, instance.problem) for instance in instances)
        ]
    return sets


@pytest.mark.parametrize(("spelling", "family"), solvers_and_families())
def test_plans_are_optimal_and_lossless_by_enumeration(spelling: str, family: str) -> None:
    def check(instance: Instance) -> None:
        problem = instance.problem
        result = solve(problem, spelling, strict=False)
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
        if isinstance(plan, Pick):
            assert_allclose(law_of_the_pick(problem.scheme, plan.rule), plan.proposal, rtol=0, atol=PICK_TOL)

    check_each(check, instance=[i for i in BY_FAMILY[family] if takes(spelling, i.problem)])


@pytest.mark.parametrize("spelling", exact_spellings())
def test_every_solver_meets_enough_problems(spelling: str) -> None:
    taken = [instance for instance in SMALL if takes(spelling, instance.problem)]
    assert len(taken) >= AT_LEAST.get(spelling, len(SMALL))


def test_the_problems_are_many_and_small() -> None:
    # The guarantee above is only as good as its problems.
    assert len(SMALL) >= 300
    assert max(instance.problem.vocab for instance in SMALL) == 6
    assert max(instance.problem.n for instance in SMALL) == 3

"""Every exact solver, on every problem small enough to know the answer by enumeration."""

from typing import Any

import pytest
from numpy.testing import assert_allclose

from otspec import Problem, Status, solve
from otspec.catalogue import get
from otspec.plans import Pick
from otspec.tolerances import TOL
from tests.each import check_each
from tests.instances import BY_FAMILY, SMALL, Instance
from tests.oracles import check_plan, law_of_the_pick, optimal_acceptance
from tests.spellings import exact_spellings, installed, skipped

PICK_TOL = 1e-13
"""The law of a pick, of at most 216 products."""

AT_LEAST = {"closed_form": 150, "interval": 250, "distinct_drafters": 250, "spechub": 40}
"""How many of the problems a solver for some kinds of drafts has to meet; every other solver takes all of them."""


STEPS = {"canonical": 3, "lp:form=full": 2, "max_flow:engine=networkx": 2, "slackness:engine=networkx": 2}
"""Of solvers that take long: every so many problems of a family."""


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
        result = solve(instance.problem, spelling, strict=False)
        assert result.status is Status.OPTIMAL, result.message
        plan, best = result.plan, optimal_acceptance(instance.problem)
        assert plan is not None
        assert plan.acceptance == pytest.approx(best, abs=TOL)
        assert plan.bound == pytest.approx(best, abs=TOL)
        assert check_plan(plan, off=TOL).membership == pytest.approx(best, abs=TOL)
        if isinstance(plan, Pick):
            assert_allclose(law_of_the_pick(instance.problem.scheme, plan.rule), plan.proposal, rtol=0, atol=PICK_TOL)

    check_each(check, instance=[i for i in BY_FAMILY[family] if takes(spelling, i.problem)][:: STEPS.get(spelling, 1)])


@pytest.mark.parametrize("spelling", exact_spellings())
def test_every_solver_meets_enough_problems(spelling: str) -> None:
    """The guarantee above is only as good as its problems."""
    assert len(SMALL) >= 300
    taken = [instance for instance in SMALL if takes(spelling, instance.problem)]
    assert len(taken) >= AT_LEAST.get(spelling, len(SMALL))

"""Every exact solver, on every problem small enough to know the answer by enumeration; and all where there is none."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import DraftScheme, Greedy, HubPairs, Independent, Problem, Status, WithoutReplacement, solve
from otspec.catalogue import get
from otspec.plans import Pick
from otspec.tolerances import TOL
from tests.each import check_each, each
from tests.instances import BY_FAMILY, SMALL, Instance, peaked_problem, starved_problem
from tests.oracles import Floats, check_plan, law_of_the_pick, optimal_acceptance
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


def drafters(vocab: int, n: int) -> Problem:
    """Drafts from laws of their own, of tokens some of which are beyond some of them."""
    rng = np.random.default_rng(n)
    logits = 2 * rng.laplace(size=vocab)
    weights = np.exp(np.vstack((logits, logits + 0.6 * rng.standard_normal((n, vocab)))))
    weights[1:, 40:60] *= rng.random((n, 20)) < 0.5
    p, *qs = weights / weights.sum(axis=1, keepdims=True)
    return Problem(p, Independent(qs))


def drafts_by(scheme: Callable[[Floats], DraftScheme], vocab: int) -> Problem:
    like = peaked_problem(vocab, 1)
    return Problem(like.p, scheme(like.scheme.priority_law(np.arange(vocab))))


WHOLE = 128_256
LARGE: dict[str, tuple[Callable[[], Problem], float]] = {
    "distinct_drafters": (lambda: drafters(400, 6), 1e-9),
    "submodular:tol=1e-5": (lambda: drafters(300, 3), 1e-5),
    "without_replacement": (lambda: drafts_by(lambda q: WithoutReplacement(q, 8), 1000), 1e-4),
    "closed_form": (lambda: drafts_by(lambda q: Greedy(q, 4), WHOLE), 1e-13),
    **{rule: (lambda: peaked_problem(WHOLE, 3), 1.0) for rule in ("naive", "single", "rrs", "kseq", "kseq:gamma=3")},
    "rsd": (lambda: drafts_by(lambda q: WithoutReplacement(q, 3), WHOLE), 1.0),
    "spechub": (lambda: drafts_by(HubPairs, WHOLE), 1.0),
}
"""Problems of many tokens, and the gap of the plan at most."""


@each(spelling=list(LARGE))
def test_plans_of_large_problems_are_certified_and_lossless(spelling: str) -> None:
    make, gap = LARGE[spelling]
    problem = make()
    plan = solve(problem, spelling).plan
    assert -1e-9 <= plan.gap <= gap
    assert plan.acceptance > 0
    assert plan.deviation <= 1e-12
    drafts = problem.scheme.sample(np.random.default_rng(0))
    law = plan.conditional(drafts)
    assert law.min() >= 0
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    assert law[plan.sample(drafts, np.random.default_rng(0))] > 0


STOPPED: dict[str, tuple[Callable[[], Problem], str, int | None]] = {
    "distinct_drafters:max_iterations=1": (lambda: peaked_problem(200, 2), "interval", None),
    "submodular:max_steps=2": (lambda: drafters(60, 3), "max_flow", 2),
    "submodular:max_seconds=0": (lambda: drafters(60, 3), "max_flow", 0),
    "without_replacement:max_steps=1": (starved_problem, "", 2),
    "without_replacement:max_seconds=0": (starved_problem, "", 0),
}
"""Solvers that stop before they are done, problems, who knows the optimum, and the steps that were taken."""


@each(spelling=list(STOPPED))
def test_a_limit_returns_the_plan_so_far_which_is_lossless_and_knows_its_gap(spelling: str) -> None:
    make, exact, steps = STOPPED[spelling]
    problem = make()
    result = solve(problem, spelling, strict=False)
    assert result.status is Status.FEASIBLE
    assert result.plan is not None
    assert 1e-9 < result.plan.gap < 1
    assert result.plan.deviation <= 1e-12
    if exact:
        best = solve(problem, exact).plan.acceptance
        assert result.plan.acceptance <= best + 1e-12 <= result.plan.bound + 2e-12
    assert result.stats.sizes.get("steps") == steps

"""Release probabilities: the plans, and the recursions over the nodes that say what a token is worth and is given."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import Problem, Status, WithoutReplacement, optimum, solve
from otspec.kernels.quadrature import quadrature
from otspec.plans import Pick
from otspec.solvers import WithoutReplacementSolver
from otspec.solvers.minimum_norm_point import Goal
from otspec.solvers.without_replacement.rule import Mixture, ReleaseRule
from otspec.solvers.without_replacement.solver import fit
from otspec.solvers.without_replacement.values import release, start_arrivals, staying_worth
from tests import laws
from tests.each import each
from tests.instances import P4, Q4, SMALL, Instance, starved_problem
from tests.oracles import check_plan, law_of_the_pick, optimal_acceptance

DISTINCT = [i for i in SMALL if isinstance(i.problem.scheme, WithoutReplacement)]


@pytest.mark.parametrize("tol", [1e-4, 1e-9])
@each(instance=DISTINCT)
def test_every_tuple_of_small_problems(instance: Instance, tol: float) -> None:
    problem = instance.problem
    result = solve(problem, WithoutReplacementSolver(tol=tol), strict=False)
    plan = result.plan
    assert result.status is Status.OPTIMAL, result.message
    assert isinstance(plan, Pick)
    best = optimal_acceptance(problem)
    assert best - tol <= plan.acceptance <= best + 1e-12
    assert plan.bound == pytest.approx(best, abs=1e-12)
    assert_allclose(law_of_the_pick(problem.scheme, plan.rule), plan.proposal, rtol=0, atol=1e-13)
    # A residual draw may hit a draft as well, where the plan is not optimal.
    assert plan.acceptance - 1e-12 <= check_plan(plan).membership <= best + 1e-12


def test_orders_help_where_release_probabilities_do_not_suffice() -> None:
    starved = starved_problem()
    plan = solve(starved, "without_replacement").plan
    assert isinstance(plan, Pick)
    assert isinstance(plan.rule, Mixture)
    assert 0 < plan.rule.share < 1
    assert plan.gap <= 1e-4
    assert plan.deviation <= 1e-12
    rng = np.random.default_rng(0)
    # The plan's law against its own picks: the two agree token by token as far as 2000 tuples can tell.
    picked = np.zeros(starved.vocab)
    tuples = starved.scheme.sample(rng, 2000)
    for drafts in tuples:
        np.add.at(picked, drafts, plan.rule.weights(drafts) / len(tuples))
    likely = plan.proposal > 0.02
    assert_allclose(picked[likely], plan.proposal[likely], rtol=0, atol=5 * np.sqrt(0.25 / 2000))


TAILS = {
    "subnormal": Problem((0.4, 0.6), WithoutReplacement((1.0, 2e-323), 2)),
    "ratio-overflows": Problem((0.1, 0.1, 0.8), WithoutReplacement((1e-310, 1.0, 1e-320), 2)),
    "last-to-arrive": Problem((0.2, 0.3, 0.5), WithoutReplacement((0.5, 0.5, 1e-300), 3)),
    **{
        f"smallest-floats-{seed}-{n}": Problem(p, WithoutReplacement(q, n))
        for seed in range(6)
        for p, q in [laws.smallest_floats(laws.model)(np.random.default_rng(seed), 5)]
        for n in (2, 3)
    },
}


FITTED = TAILS["subnormal"], TAILS["last-to-arrive"]


@each(problem=TAILS)
def test_tails_below_the_range_of_products(problem: Problem) -> None:
    result = solve(problem, "without_replacement")
    plan = result.plan
    assert isinstance(plan, Pick)
    assert plan.gap <= 1e-4
    assert optimum(problem).bound == pytest.approx(optimal_acceptance(problem), abs=1e-12)
    check_plan(plan)
    assert_allclose(law_of_the_pick(problem.scheme, plan.rule), plan.proposal, rtol=0, atol=1e-13)
    if problem in FITTED:  # and not left to orders
        assert isinstance(plan.rule, ReleaseRule)


def test_a_fit_that_comes_to_nothing_leaves_plain_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = lambda arrivals, owed, worth, released, gained: np.full(owed.size, np.nan)  # noqa: E731
    monkeypatch.setattr("otspec.solvers.without_replacement.fit.law_after_release", lost)
    scheme = WithoutReplacement(Q4, 2)
    goal = Goal.of(Problem(P4, scheme).compact().problem)
    layers, fitted = fit(scheme.compact(), goal, np.arange(4), 4, 1e-4)
    assert fitted > 0
    assert (layers.released == 1.0).all()
    assert_allclose(layers.law, goal.by_order)


@each(n=(2, 3, 4))
def test_any_release_probabilities_give_the_law_that_their_recursions_say(n: int) -> None:
    # Not only those that a fit finds, and not only in the lowest block: here tokens 2 to 5 of 7 are fitted.
    rng = np.random.default_rng(n)
    q = rng.dirichlet(np.full(7, 0.7))
    scheme = WithoutReplacement(q, n)
    order = np.arange(7)
    arrivals = start_arrivals(scheme.q, scheme.heavy, 2, 6, scheme.nodes, *quadrature(n))
    released, gained, worth = np.empty(4), np.empty(4), np.empty(4)
    release(arrivals, rng.dirichlet(np.ones(4)) * 0.7, rng.dirichlet(np.ones(4)) * 0.2, released, gained)
    staying_worth(arrivals, released, worth)
    law = scheme.priority_law(order)
    law[2:6] = gained + (1 - released) * worth
    rule = ReleaseRule(order, np.array([0, 1, 2, 6]), np.r_[1.0, 1.0, released, 1.0], law, 7)
    assert np.count_nonzero(released) > 0 and released.min() < 1  # noqa: PT018
    assert_allclose(law_of_the_pick(scheme, rule), law, rtol=0, atol=1e-14)
    assert law.sum() == pytest.approx(1.0, abs=1e-14)

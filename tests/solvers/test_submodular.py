"""The minimum norm point of the base polytope, and the solver that goes for it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import Independent, Problem, Status, Table, WithoutReplacement, optimum, solve
from otspec.plans import Pick
from otspec.solvers import Submodular
from otspec.solvers.minimum_norm_point import FLOOR, Goal
from tests.each import each
from tests.instances import BY_PREFIXES, Instance
from tests.oracles import check_plan, hit_function, mass_function


def table(vocab: int, n: int, rows: int, seed: int) -> Problem:
    """Any correlation, tokens of any size: no order of the tokens is known to serve."""
    rng = np.random.default_rng(seed)
    drafts = np.unique(rng.integers(vocab, size=(rows, n)), axis=0)
    p = rng.dirichlet(np.full(vocab, 0.3))
    p[rng.random(vocab) < 0.2] = 0.0
    return Problem(p / p.sum(), Table(drafts, rng.dirichlet(np.full(len(drafts), 0.3)), vocab))


@each(n=(2, 3, 4))
def test_distinct_drafters(n: int) -> None:
    # n >= 3 distinct laws over a large vocabulary: no other solver of the package takes them.
    rng = np.random.default_rng(n)
    logits = rng.laplace(scale=2, size=300)
    weights = np.exp(np.vstack((logits, logits + 0.7 * rng.standard_normal((n, 300)))))
    weights[1:, 40:60] *= rng.random((n, 20)) < 0.5  # some tokens are beyond some of the drafters
    laws = weights / weights.sum(axis=1, keepdims=True)
    problem = Problem(laws[0], Independent(laws[1:]))
    plan = solve(problem, Submodular(tol=1e-5)).plan
    assert -1e-12 <= plan.gap <= 1e-5
    assert plan.deviation <= 1e-12
    assert plan.acceptance > np.minimum(laws[0], laws[1]).sum()  # more than one draft can do
    drafts = problem.scheme.sample(rng)
    assert plan.conditional(drafts).sum() == pytest.approx(1.0, abs=1e-12)


@each(tiny=(0.0, 1e-300, 1e-12))
def test_tokens_with_hardly_any_target_mass_do_no_harm(tiny: float) -> None:
    # As a table no order is known; most tokens then have a target far below the floor of the weights.
    rng = np.random.default_rng(0)
    p = np.full(12, tiny)
    p[:3] = 0.5, 0.3, 0.2
    like = WithoutReplacement(rng.dirichlet(np.ones(12)), 3)
    problem = Problem(p / p.sum(), Table(*like.support(), 12))
    assert tiny < FLOOR
    plan = solve(problem, "submodular").plan
    assert plan.acceptance == pytest.approx(optimum(problem).acceptance, abs=1e-9)
    assert np.isfinite(plan.conditional(np.array([0, 5, 7]))).all()


@pytest.mark.parametrize(("limits", "steps"), [({"max_steps": 2}, 2), ({"max_seconds": 0.0}, 0)])
def test_a_limit_returns_the_plan_so_far(limits: dict[str, float], steps: int) -> None:
    problem = table(60, 3, 400, 0)
    result = solve(problem, Submodular(**limits), strict=False)  # type: ignore[arg-type]
    assert result.status is Status.FEASIBLE
    plan = result.plan
    assert isinstance(plan, Pick)
    assert result.stats.sizes["steps"] == steps
    assert 1e-9 < plan.gap < 1
    # Lossless and certified wherever it stops, and optimal where it does not.
    best = optimum(problem).acceptance
    assert plan.acceptance <= best + 1e-12 <= plan.bound + 2e-12
    check_plan(plan)
    whole = solve(problem, "submodular").plan
    assert whole.acceptance == pytest.approx(best, abs=1e-9)
    assert whole.bound == pytest.approx(best, abs=1e-9)


@each(instance=BY_PREFIXES)
def test_blocks_of_the_minorant_are_a_face_of_the_base_polytope(instance: Instance) -> None:
    problem = instance.problem.compact().problem
    goal = Goal.of(problem)
    assert goal.starts[0] == 0
    assert (np.diff(goal.starts) > 0).all()
    assert_allclose(np.sort(goal.order), problem.scheme.reachable())
    law = np.zeros(problem.vocab)
    law[goal.order] = goal.law
    excess = mass_function(law) - hit_function(problem.scheme)
    assert excess.max() <= 1e-12
    # Tight at the end of every block: what comes first in all orders tried gets all that it can.
    codes = np.cumsum(1 << goal.order)[np.append(goal.starts[1:], goal.order.size) - 1]
    assert_allclose(excess[codes], 0.0, rtol=0, atol=1e-12)

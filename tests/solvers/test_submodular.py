"""The minimum norm point of the base polytope, and the solver that goes for it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import Problem, Table, WithoutReplacement, optimum, solve
from otspec.solvers.minimum_norm_point import FLOOR, Goal
from tests.each import each
from tests.instances import BY_PREFIXES, Instance
from tests.oracles import hit_function, mass_function


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

"""The machinery behind the claims of section 6 against the solver, which is enumerated, and against itself."""

from itertools import product

import numpy as np
import pytest

from otspec import IID, Problem
from otspec.proofs_check.global_resolution.split import iid_masses, iid_split, minimiser, table_split
from otspec.proofs_check.global_resolution.transport import Transport
from otspec.proofs_check.instances import iid, positive_law
from otspec.proofs_check.oracles import psi_of
from otspec.solvers import GlobalResolution
from otspec.solvers.global_resolution.plan import Resolution
from tests.each import each

SEEDS = range(12)


@each(seed=SEEDS)
def test_the_solver_measures_the_same_error_and_serves_the_same_outer_tokens(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, q = positive_law(rng, 5), positive_law(rng, 5)
    plan = GlobalResolution(tau=0.05, max_iterations=200)(Problem(p, IID(q, 3))).plan
    assert isinstance(plan, Resolution)
    cut = iid_split(p, q, 3)
    alpha = np.zeros(5)
    for solved in (plan.outer, plan.inner):
        alpha[solved.system.tokens] = solved.alpha
    assert cut.error(alpha) == pytest.approx(plan.deviation, abs=1e-12)
    assert cut.acceptance(alpha) == pytest.approx(plan.acceptance, abs=1e-12)
    outside = ~cut.inside
    np.testing.assert_allclose(cut.outer.demands[outside], plan.split.served[outside], atol=1e-14)


@each(seed=SEEDS)
def test_a_table_of_all_tuples_is_the_iid_problem(seed: int) -> None:
    instance = iid(np.random.default_rng(seed), largest=4, most=3)
    p, q, n = instance["p"], instance["q"], instance["n"]
    drafts = np.array(list(product(range(q.size), repeat=n)))
    cut, expected = table_split(p, drafts, q[drafts].prod(axis=1)), iid_split(p, q, n)
    np.testing.assert_array_equal(cut.inside, expected.inside)
    assert cut.psi == pytest.approx(expected.psi, abs=1e-15)
    assert cut.outer.demands.sum() == pytest.approx(expected.outer.demands.sum(), abs=1e-14)


def test_the_smallest_and_the_largest_minimiser() -> None:
    half = np.array([0.5, 0.5])
    psi = psi_of(half, iid_masses(half, 2))
    assert (minimiser(psi), minimiser(psi, largest=True)) == (0, 3)


@pytest.mark.parametrize("slack", [False, True])
def test_the_gradient_is_that_of_the_value(slack: bool) -> None:
    rng = np.random.default_rng(3)
    edges = rng.random((6, 4)) < 0.6
    edges[np.arange(6), rng.integers(0, 4, 6)] = True
    system = Transport(edges, rng.random(6), rng.random(4), slack)
    alpha, h = rng.normal(size=4), 1e-6
    differences = [(system.value(alpha + h * e) - system.value(alpha - h * e)) / (2 * h) for e in np.eye(4)]
    np.testing.assert_allclose(system.gradient(alpha), differences, atol=1e-8)


def test_flat_goes_on_where_the_infimum_is_not_attained() -> None:
    cut = iid_split(np.array([0.25, 0.75]), np.array([0.5, 0.5]), 2)
    alpha = cut.outer.flat(1e-10)
    assert 0 < cut.outer.slope(alpha) <= 1e-10
    assert alpha[1] - alpha[0] > 20

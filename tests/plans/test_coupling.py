import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import IID, Problem, optimum
from otspec.certificate import transport_network
from otspec.kernels.max_flow import max_flow
from otspec.plans import Coupling
from tests.each import each
from tests.instances import P4, Q4, VARIED, Instance, sample_of_each
from tests.oracles import Floats, enumerate_plan

SUM_TOL = 1e-12
"""Sums of at most 216 products of probabilities."""


def optimal_flow(problem: Problem) -> Floats:
    return max_flow(transport_network(problem, problem.scheme.draft_sets()))


def fit(problem: Problem, accepted: Floats) -> Coupling:
    return Coupling.fit(problem, problem.scheme.draft_sets(), accepted, optimum(problem).bound)


def assert_figures_are_true(plan: Coupling) -> None:
    """Lossless, and all figures as enumeration of the tuples has them."""
    enumeration = enumerate_plan(plan)
    assert_allclose(enumeration.output, plan.problem.p, rtol=0, atol=SUM_TOL)
    assert_allclose(plan.output_law(), enumeration.output, rtol=0, atol=SUM_TOL)
    assert plan.acceptance == pytest.approx(enumeration.membership, abs=SUM_TOL)
    assert plan.deviation <= SUM_TOL
    assert enumeration.lowest >= 0
    assert enumeration.normalisation <= SUM_TOL


class TestFitIsLossless:
    """Whatever a solver hands over."""

    @each(instance=VARIED)
    def test_optimal_values_none_and_too_many(self, instance: Instance) -> None:
        flow = optimal_flow(instance.problem)
        plan = fit(instance.problem, flow)
        assert_figures_are_true(plan)
        assert abs(plan.gap) <= SUM_TOL
        assert_figures_are_true(fit(instance.problem, np.ones(flow.size)))
        plan = fit(instance.problem, np.zeros(flow.size))
        assert_figures_are_true(plan)
        # The output is then drawn from p, apart from the drafts.
        drafts, probabilities = instance.problem.scheme.support()
        assert_allclose(plan.conditional(drafts[probabilities.argmax()]), instance.problem.p, rtol=SUM_TOL)

    @each(instance=VARIED, noise=(1e-9, 1e-2, 10.0))
    def test_perturbed_values(self, instance: Instance, noise: float) -> None:
        # The middle one breaks rows and columns and has negative values; the largest is nothing but noise.
        flow = optimal_flow(instance.problem)
        values = flow + noise * np.random.default_rng(0).normal(size=flow.size)
        assert_figures_are_true(fit(instance.problem, values))


def test_rounding_of_a_solver_costs_no_more_than_its_size_and_fit_leaves_it_its_values() -> None:
    problem = Problem(P4, IID(Q4, 3))
    flow = optimal_flow(problem)
    plan = fit(problem, flow + 1e-9 * np.random.default_rng(0).normal(size=flow.size))
    assert 0 <= plan.gap <= 1e-9 * flow.size
    values = np.full(flow.size, -1.0)
    fit(problem, values)
    assert (values == -1.0).all()


def full_table(problem: Problem) -> Coupling:
    """The optimal plan with an entry for every token: what a set does not serve is spread over p's residual."""
    sets = problem.scheme.draft_sets()
    plan = fit(problem, optimal_flow(problem))
    rows = []
    for row, mass in enumerate(sets.mass):
        drafts = sets.tokens[row][sets.tokens[row] >= 0]
        rows.append(mass * plan.conditional(np.resize(drafts, problem.n)))
    indptr = np.arange(len(sets) + 1) * problem.vocab
    columns = np.tile(np.arange(problem.vocab), len(sets))
    return Coupling.fit_table(problem, sets, indptr, columns, np.concatenate(rows), plan.bound)


@each(instance=sample_of_each(5))
def test_full_table_is_the_same_plan(instance: Instance) -> None:
    problem = instance.problem
    table, plan = full_table(problem), fit(problem, optimal_flow(problem))
    assert_figures_are_true(table)
    for drafts, probability in zip(*problem.scheme.support(), strict=True):
        assert_allclose(probability * table.conditional(drafts), probability * plan.conditional(drafts), atol=SUM_TOL)
    # On the cells of the sets the table accepts what the flow accepts, plus the residual's hits.
    hits = plan.residual[table.sets.cells] * np.repeat(
        table.sets.mass - np.add.reduceat(plan.values, plan.sets.indptr[:-1]), np.diff(plan.sets.indptr)
    )
    assert_allclose(table.accepted, plan.values + hits, atol=SUM_TOL)


def test_known_conditional_laws() -> None:
    # V = 2, n = 2, q uniform, p = (0.9, 0.1): token 0 wins wherever it is drawn; (1, 1) gives 1 with 0.1 / 0.25.
    problem = Problem(np.array([0.9, 0.1]), IID(np.array([0.5, 0.5]), 2))
    plan = fit(problem, optimal_flow(problem))
    for drafts in ([0, 0], [1, 0], [0, 1]):
        assert_allclose(plan.conditional(np.array(drafts)), [1.0, 0.0], atol=1e-15)
    assert_allclose(plan.conditional(np.array([1, 1])), [0.6, 0.4], atol=1e-15)

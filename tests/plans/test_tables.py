"""Plans of a table, and of a rule that picks: lossless by enumeration, whatever a solver hands over."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import otspec
from otspec import IID, Problem, canonical_decomposition, optimum
from otspec.certificate import transport_network
from otspec.kernels.max_flow import max_flow
from otspec.plans import Coupling, Pick, PickTable
from otspec.plans.place_rule import PlaceRule
from tests import laws
from tests.each import each
from tests.instances import P4, Q4, VARIED, Instance, sample_of_each
from tests.oracles import Floats, Ints, check_plan, check_sampled, enumerate_plan, law_of_the_pick, optimal_acceptance

SUM_TOL = 1e-12
"""Sums of at most 216 products of probabilities."""


def optimal_flow(problem: Problem) -> Floats:
    return max_flow(transport_network(problem, problem.scheme.draft_sets()))


def fit(problem: Problem, accepted: Floats) -> Coupling:
    return Coupling.fit(problem, problem.scheme.draft_sets(), accepted, optimum(problem).bound)


def noisy(problem: Problem, noise: float) -> Coupling:
    """The middle noise breaks rows and columns and has negative values; the largest is nothing but noise."""
    flow = optimal_flow(problem)
    return fit(problem, flow + noise * np.random.default_rng(0).normal(size=flow.size))


def short_of_it(problem: Problem) -> Coupling:
    flow = optimal_flow(problem)
    return fit(problem, flow * np.random.default_rng(0).random(flow.size))


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


def random_pick(problem: Problem) -> Pick:
    """A pick rule that knows nothing of p."""
    sets = problem.scheme.draft_sets()
    weights = np.random.default_rng(1).random(sets.cells.size)
    weights /= np.add.reduceat(weights, sets.indptr[:-1])[sets.owner]
    return Pick(problem, PickTable(sets, weights, problem.vocab), optimum(problem).bound)


KINDS: dict[str, Callable[[Problem], Coupling | Pick]] = {
    "flow": lambda problem: fit(problem, optimal_flow(problem)),
    "full table": full_table,
    "canonical": lambda problem: canonical_decomposition(fit(problem, optimal_flow(problem))),
    "nothing": lambda problem: fit(problem, np.zeros(problem.scheme.draft_sets().cells.size)),
    "too much": lambda problem: fit(problem, np.ones(problem.scheme.draft_sets().cells.size)),
    **{f"noise of {noise}": lambda problem, noise=noise: noisy(problem, noise) for noise in (1e-9, 1e-2, 10.0)},  # type: ignore[misc]
    "short": short_of_it,
    "canonical, short": lambda problem: canonical_decomposition(short_of_it(problem)),
    "random": random_pick,
}
OPTIMAL = ("flow", "full table", "canonical")


@pytest.mark.parametrize("kind", KINDS)
@each(instance=VARIED)
def test_a_plan_is_lossless_and_its_figures_are_those_of_enumeration(kind: str, instance: Instance) -> None:
    problem = instance.problem
    plan = KINDS[kind](problem)
    found = check_plan(plan)
    assert plan.deviation <= SUM_TOL
    assert plan.acceptance - SUM_TOL <= found.membership <= plan.bound + SUM_TOL
    if isinstance(plan, Coupling) or kind in OPTIMAL:
        assert plan.acceptance == pytest.approx(found.membership, abs=SUM_TOL)
    if kind in OPTIMAL:
        # Theorem 4.1: picking in proportion to an optimal coupling loses nothing.
        assert plan.acceptance == pytest.approx(optimal_acceptance(problem), abs=SUM_TOL)
        assert abs(plan.gap) <= SUM_TOL
    if isinstance(plan, Pick):
        picked = law_of_the_pick(problem.scheme, plan.rule)
        assert_allclose(plan.proposal, picked, rtol=0, atol=SUM_TOL)
        assert plan.acceptance == pytest.approx(np.minimum(problem.p, picked).sum(), abs=SUM_TOL)
    if kind == "canonical, short":
        # Residual hits apart, as Theorem 4.1 has it: the decomposition accepts at least what the table accepts.
        assert plan.acceptance >= short_of_it(problem).accepted.sum() - SUM_TOL
    if kind == "nothing":
        # The output is then drawn from p, apart from the drafts.
        drafts, probabilities = problem.scheme.support()
        assert_allclose(plan.conditional(drafts[probabilities.argmax()]), problem.p, rtol=SUM_TOL)


@each(kind=["flow", "random"], instance=sample_of_each(1))
def test_samples_follow_the_conditional_law(kind: str, instance: Instance) -> None:
    check_sampled(KINDS[kind](instance.problem))


def test_rounding_of_a_solver_costs_no_more_than_its_size_and_fit_leaves_it_its_values() -> None:
    problem = Problem(P4, IID(Q4, 3))
    plan = noisy(problem, 1e-9)
    assert 0 <= plan.gap <= 1e-9 * plan.values.size
    values = np.full(plan.values.size, -1.0)
    fit(problem, values)
    assert (values == -1.0).all()


def test_weights_go_to_the_first_of_equal_drafts() -> None:
    sets = IID(Q4, 3).draft_sets()
    rule = PickTable(sets, 1.0 / np.diff(sets.indptr)[sets.owner], 4)
    assert_array_equal(rule.weights(np.array([3, 1, 3])), [0.5, 0.5, 0.0])
    assert_array_equal(rule.weights(np.array([2, 2, 2])), [1.0, 0.0, 0.0])


@dataclass(frozen=True, eq=False)
class Claims:
    """A rule of one's own, which says what it likes of its law, and has whatever weights."""

    proposal: Floats
    answer: Floats

    def weights(self, drafts: Ints) -> Floats:
        return self.answer


FIRST = np.array([1.0, 0.0])
"""Weights of single-draft speculative sampling."""
LONG = np.full(100, 0.01)


def test_a_rule_of_ones_own() -> None:
    # Picking the first of i.i.d. drafts accepts 1 - TV(p, q).
    plan = Pick(Problem(P4, IID(Q4, 2)), Claims(Q4, FIRST), bound=1.0)
    assert plan.acceptance == pytest.approx(0.6, abs=1e-15)
    assert plan.gap == pytest.approx(0.4, abs=1e-15)
    assert_allclose(enumerate_plan(plan).output, P4, rtol=0, atol=1e-15)
    # Draft 3 is accepted with p/q = 1/4; else the output is 0 or 1, short by 0.3 and 0.1.
    assert_allclose(plan.conditional(np.array([3, 0])), [0.75 * 0.75, 0.75 * 0.25, 0.0, 0.25], rtol=1e-14)
    # Where every tuple is tried the law of the pick is not taken on trust: p would be optimal, and it is q.
    trusted = Pick(plan.problem, Claims(P4, FIRST), bound=1.0)
    assert trusted.gap == pytest.approx(0.0, abs=1e-15)
    assert trusted.deviation == pytest.approx(np.abs(P4 - Q4).sum(), abs=1e-15)


@each(
    laws={"every-tuple": (P4, Q4), "some-tuples": (LONG, LONG)},
    answer={"nan": [np.nan, np.nan], "too-much": [0.7, 0.7], "below-zero": [1.5, -0.5], "nothing": [0.0, 0.0]},
)
def test_weights_that_are_no_probabilities_are_not_certified(laws: tuple[Floats, Floats], answer: list[float]) -> None:
    p, q = laws
    plan = Pick(Problem(p, IID(q, 2)), Claims(q, np.array(answer)), bound=1.0)
    assert not plan.deviation <= 1e-3
    right = Pick(Problem(p, IID(q, 2)), Claims(q, np.array([0.5, 0.5])), bound=1.0)
    assert right.deviation <= 1e-15


def test_the_output_is_drawn_without_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    p, q = laws.lumpy(np.random.default_rng(5), 12)
    plan = otspec.solve(Problem(p, IID(q, 256)), "interval").plan
    assert isinstance(plan, Pick)
    assert isinstance(plan.rule, PlaceRule)

    def integrals(self: PlaceRule, drafts: object) -> None:
        raise AssertionError("they take most of a second for so many drafts")

    monkeypatch.setattr(PlaceRule, "weights", integrals)
    assert plan.deviation <= 1e-12
    rng = np.random.default_rng(7)
    drafted = plan.problem.scheme.sample(rng, 4000)
    counts = np.bincount([plan.sample(drafts, rng) for drafts in drafted], minlength=12)
    np.testing.assert_allclose(counts / 4000, plan.problem.p, atol=5 * 0.5 / math.sqrt(4000))

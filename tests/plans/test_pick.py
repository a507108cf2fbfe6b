from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from otspec import IID, Plan, Problem, canonical_decomposition, optimum
from otspec.plans import Coupling, Pick, PickTable
from tests.each import each
from tests.instances import P4, Q4, VARIED, Instance, sample_of_each
from tests.oracles import Floats, Ints, enumerate_plan, law_of_the_pick, optimal_acceptance
from tests.plans.test_coupling import SUM_TOL, fit, optimal_flow


def optimal_coupling(problem: Problem) -> Coupling:
    return fit(problem, optimal_flow(problem))


def random_pick(problem: Problem, seed: int) -> Pick:
    """A pick rule that knows nothing of p."""
    sets = problem.scheme.draft_sets()
    weights = np.random.default_rng(seed).random(sets.cells.size)
    weights /= np.add.reduceat(weights, sets.indptr[:-1])[sets.owner]
    return Pick(problem, PickTable(sets, weights, problem.vocab), optimum(problem).bound)


class TestCanonicalDecomposition:
    @each(instance=VARIED)
    def test_attains_the_optimum_and_is_lossless_by_enumeration(self, instance: Instance) -> None:
        # Theorem 4.1: picking in proportion to an optimal coupling loses nothing.
        plan = canonical_decomposition(optimal_coupling(instance.problem))
        assert plan.acceptance == pytest.approx(optimal_acceptance(instance.problem), abs=SUM_TOL)
        assert abs(plan.gap) <= SUM_TOL
        enumeration = enumerate_plan(plan)
        assert_allclose(enumeration.output, instance.problem.p, rtol=0, atol=SUM_TOL)
        assert_allclose(plan.output_law(), enumeration.output, rtol=0, atol=SUM_TOL)
        assert enumeration.membership == pytest.approx(plan.acceptance, abs=SUM_TOL)
        assert enumeration.lowest >= 0
        assert enumeration.normalisation <= SUM_TOL

    @each(instance=VARIED)
    def test_loses_nothing_against_a_coupling_that_is_not_optimal(self, instance: Instance) -> None:
        flow = optimal_flow(instance.problem)
        coupling = fit(instance.problem, flow * np.random.default_rng(0).random(flow.size))
        # Residual hits apart, as Theorem 4.1 has it: the decomposition accepts at least what the table accepts.
        assert canonical_decomposition(coupling).acceptance >= coupling.accepted.sum() - SUM_TOL


class TestAnyPickRule:
    @each(instance=VARIED)
    def test_is_lossless_and_accepts_the_overlap_of_p_and_g(self, instance: Instance) -> None:
        problem = instance.problem
        plan = random_pick(problem, seed=1)
        picked = law_of_the_pick(problem.scheme, plan.rule)
        enumeration = enumerate_plan(plan)
        assert_allclose(enumeration.output, problem.p, rtol=0, atol=SUM_TOL)
        assert_allclose(plan.output_law(), problem.p, rtol=0, atol=SUM_TOL)
        assert plan.acceptance == pytest.approx(np.minimum(problem.p, picked).sum(), abs=SUM_TOL)
        # A draw from the residual may hit another draft.
        assert enumeration.membership >= plan.acceptance - SUM_TOL
        assert enumeration.membership <= plan.bound + SUM_TOL
        assert_allclose(plan.proposal, picked, rtol=0, atol=SUM_TOL)


def test_weights_go_to_the_first_of_equal_drafts() -> None:
    scheme = IID(Q4, 3)
    sets = scheme.draft_sets()
    rule = PickTable(sets, 1.0 / np.diff(sets.indptr)[sets.owner], 4)
    assert_array_equal(rule.weights(np.array([3, 1, 3])), [0.5, 0.5, 0.0])
    assert_array_equal(rule.weights(np.array([2, 2, 2])), [1.0, 0.0, 0.0])


@dataclass(frozen=True, eq=False)
class FirstDraft:
    """The rule of single-draft speculative sampling, which may share a repeated token's weight as it likes."""

    q: Floats

    @property
    def proposal(self) -> Floats:
        return self.q

    def weights(self, drafts: Ints) -> Floats:
        return np.eye(drafts.size)[0]


def test_a_rule_of_ones_own() -> None:
    # Picking the first of i.i.d. drafts is single-draft speculative sampling: 1 - TV(p, q).
    plan = Pick(Problem(P4, IID(Q4, 2)), FirstDraft(Q4), bound=1.0)
    assert plan.acceptance == pytest.approx(0.6, abs=1e-15)
    assert plan.gap == pytest.approx(0.4, abs=1e-15)
    assert_allclose(enumerate_plan(plan).output, P4, rtol=0, atol=1e-15)
    # Draft 3 is accepted with p/q = 1/4; else the output is 0 or 1, short by 0.3 and 0.1.
    assert_allclose(plan.conditional(np.array([3, 0])), [0.75 * 0.75, 0.75 * 0.25, 0.0, 0.25], rtol=1e-14)


def plans(problem: Problem) -> dict[str, Plan]:
    coupling = optimal_coupling(problem)
    return {"coupling": coupling, "canonical": canonical_decomposition(coupling), "random": random_pick(problem, 3)}


def least_certain_drafts(plan: Plan) -> Ints:
    """The tuple after which the output is most open: for most tuples one token is certain."""
    drafts = plan.problem.scheme.support().drafts
    certainty = [plan.conditional(row).max() for row in drafts]
    return drafts[np.argmin(certainty)]


@pytest.mark.parametrize("kind", ["coupling", "canonical", "random"])
@each(instance=sample_of_each(1))
def test_samples_follow_the_conditional_law(instance: Instance, kind: str) -> None:
    plan = plans(instance.problem)[kind]
    drafts = least_certain_drafts(plan)
    law, total, rng = plan.conditional(drafts), 500, np.random.default_rng(0)
    counts = np.bincount([plan.sample(drafts, rng) for _ in range(total)], minlength=law.size)
    # Binomial standard deviations, token by token: a law may be certain, or have cells too small for chi-square.  The
    # seed is fixed; a right sampler stays within 5 of them, and never puts out what has probability 0.
    assert (abs(counts - total * law) <= 5 * np.sqrt(total * law * (1 - law)) + 1e-6).all()


@dataclass(frozen=True, eq=False)
class Claims:
    """A rule with a right g and whatever weights."""

    proposal: Floats
    answer: Floats

    def weights(self, drafts: Ints) -> Floats:
        return self.answer


LONG = np.full(100, 0.01)


@pytest.mark.parametrize(("p", "q"), [(P4, Q4), (LONG, LONG)], ids=["every-tuple", "some-tuples"])
@each(answer={"nan": [np.nan, np.nan], "too-much": [0.7, 0.7], "below-zero": [1.5, -0.5], "nothing": [0.0, 0.0]})
def test_weights_that_are_no_probabilities_are_not_certified(p: Floats, q: Floats, answer: list[float]) -> None:
    plan = Pick(Problem(p, IID(q, 2)), Claims(q, np.array(answer)), bound=1.0)
    assert not plan.deviation <= 1e-3
    right = Pick(Problem(p, IID(q, 2)), Claims(q, np.array([0.5, 0.5])), bound=1.0)
    assert right.deviation <= 1e-15


def test_where_every_tuple_is_tried_the_law_of_the_pick_is_not_taken_on_trust() -> None:
    # g is said to be p, which would be optimal; the first draft has the law q.
    plan = Pick(Problem(P4, IID(Q4, 2)), Claims(P4, np.array([1.0, 0.0])), bound=1.0)
    assert plan.gap == pytest.approx(0.0, abs=1e-15)
    assert plan.deviation == pytest.approx(np.abs(P4 - Q4).sum(), abs=1e-15)

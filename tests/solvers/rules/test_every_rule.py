"""The published rules against their definitions, tuple by tuple, and against theorems."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import (
    IID,
    DraftScheme,
    Greedy,
    HubPairs,
    Independent,
    Plan,
    Problem,
    Status,
    UnknownSolver,
    WithoutReplacement,
    solve,
)
from otspec.catalogue import get
from otspec.plans import Match, Sequential
from otspec.solvers.rules.kseq import best_gamma
from tests.each import check_each, each
from tests.instances import BY_FAMILY, P4, Q4, Instance, peaked_problem, sample_of_each
from tests.oracles import Floats, all_tuples, enumerate_plan, optimal_acceptance
from tests.solvers.rules import published
from tests.solvers.rules.published import Simulation

ROUNDING = 1e-13
"""Sums over at most 216 tuples of a few factors each."""


@dataclass(frozen=True)
class Case:
    """A rule on drafts that it is made for."""

    name: str
    spelling: str
    problem: Problem
    q: Floats
    simulation: Simulation


def law_of_first(scheme: DraftScheme) -> Floats:
    """By enumeration of all tuples."""
    tuples = all_tuples(scheme)
    return np.eye(scheme.vocab)[tuples[:, 0]].T @ scheme.prob(tuples)


def without_replacement(scheme: IID) -> WithoutReplacement:
    """Drafts that all differ, as many as there can be up to n."""
    return WithoutReplacement(scheme.q, min(scheme.n, int(np.count_nonzero(scheme.q))))


RULES = ("naive", "single", "rrs", "kseq", "kseq:gamma=n", "rsd", "spechub")
every_rule = pytest.mark.parametrize("rule", RULES)


def cases(instances: list[Instance]) -> dict[str, list[Case]]:
    """By rule: every problem that it takes, i.i.d. problems also with hub pairs and without replacement."""
    found: dict[str, list[Case]] = {rule: [] for rule in RULES}
    for instance in instances:
        p, scheme = instance.problem.p, instance.problem.scheme
        problems = [instance.problem]
        if isinstance(scheme, IID):
            problems += [Problem(p, HubPairs(scheme.q)), Problem(p, without_replacement(scheme))]
        for problem in problems:
            law = law_of_first(problem.scheme)
            laws = {"rrs": problem.scheme.qs} if isinstance(problem.scheme, Independent) else {}
            simulations = (
                published.naive,
                published.single,
                published.rrs,
                published.kseq(best_gamma(p, law, problem.n)),
                published.kseq(problem.n),
                published.rsd,
                published.single if problem.n == 1 else published.spechub,
            )
            name = f"{type(problem.scheme).__name__}-{instance.name}"
            for rule, simulation in zip(RULES, simulations, strict=True):
                spelling = rule.replace("=n", f"={problem.n}")
                if get(spelling).supports(problem) is None:
                    found[rule].append(Case(name, spelling, problem, laws.get(spelling, law), simulation))
    return found


CASES = cases([*BY_FAMILY["known"], *sample_of_each(2)])


def plan_of(problem: Problem, spelling: str) -> Plan:
    plan = solve(problem, spelling).plan  # strict: it found what the rule promises
    assert plan is not None
    return plan


@every_rule
def test_rule_is_its_definition(rule: str) -> None:
    check_each(agrees_with_its_definition, case=CASES[rule])


def agrees_with_its_definition(case: Case) -> None:
    plan = plan_of(case.problem, case.spelling)
    accepted = 0.0
    for drafts, probability in zip(*case.problem.scheme.support(), strict=True):
        outcome = case.simulation(case.problem.p, case.q, drafts)
        # Weighed by the tuple's probability: what is left of p after the tests can be so little that two ways to
        # compute it differ by more, after tuples that hardly ever occur.
        assert_allclose(probability * plan.conditional(drafts), probability * np.array(outcome.law), atol=ROUNDING)
        accepted += probability * outcome.accepted
    assert plan.acceptance == pytest.approx(accepted, abs=ROUNDING)


@every_rule
def test_figures_are_those_of_enumeration(rule: str) -> None:
    check_each(has_the_figures_of_enumeration, case=CASES[rule])


def has_the_figures_of_enumeration(case: Case) -> None:
    plan = plan_of(case.problem, case.spelling)
    assert isinstance(plan, Match | Sequential)
    enumeration = enumerate_plan(plan)
    assert_allclose(enumeration.output, case.problem.p, rtol=0, atol=ROUNDING)
    assert_allclose(plan.output_law(), enumeration.output, rtol=0, atol=ROUNDING)
    assert enumeration.lowest >= 0
    assert enumeration.normalisation <= ROUNDING
    assert plan.membership == pytest.approx(enumeration.membership, abs=ROUNDING)
    best = optimal_acceptance(case.problem)
    assert plan.bound == pytest.approx(best, abs=ROUNDING)
    assert plan.acceptance - ROUNDING <= plan.membership <= best + ROUNDING


@every_rule
def test_the_cases_are_many(rule: str) -> None:
    # What the two tests above say is worth as much as what they were tried on.
    assert len(CASES[rule]) >= 30


FEWER_CASES = cases(sample_of_each(1))
IID_PROBLEMS = [instance for instance in sample_of_each(4) if isinstance(instance.problem.scheme, IID)]
iid = each(instance=IID_PROBLEMS)


@iid
def test_theorems_about_acceptance(instance: Instance) -> None:
    problem, n = instance.problem, instance.problem.n
    assert isinstance(problem.scheme, IID)
    accepted = {name: plan_of(problem, name).acceptance for name in ("naive", "single", "rrs", "kseq")}
    best = optimal_acceptance(problem)
    assert max(accepted.values()) <= best + ROUNDING
    assert accepted["kseq"] >= (1 - (1 - 1 / n) ** n) * best - ROUNDING  # SpecTr's guarantee
    assert min(accepted["rrs"], accepted["kseq"]) >= accepted["single"] - ROUNDING
    one_draft = Problem(problem.p, IID(problem.scheme.q, 1))
    assert accepted["single"] == pytest.approx(optimal_acceptance(one_draft), abs=ROUNDING)
    for gamma in (n, 2 * n):  # acceptance falls with gamma
        assert accepted["kseq"] >= plan_of(problem, f"kseq:gamma={gamma}").acceptance - ROUNDING


@iid
def test_spechub_is_optimal_for_its_drafts(instance: Instance) -> None:
    assert isinstance(instance.problem.scheme, IID)
    problem = Problem(instance.problem.p, HubPairs(instance.problem.scheme.q))
    result = solve(problem, "spechub")
    assert result.status is Status.OPTIMAL
    assert result.plan is not None
    assert result.plan.acceptance == pytest.approx(optimal_acceptance(problem), abs=ROUNDING)
    if np.count_nonzero(instance.problem.scheme.q) > 1:
        greedy = Problem(problem.p, Greedy(instance.problem.scheme.q, 2))
        assert result.plan.acceptance == pytest.approx(optimal_acceptance(greedy), abs=ROUNDING)


@iid
def test_one_draft_leaves_nothing_to_choose(instance: Instance) -> None:
    assert isinstance(instance.problem.scheme, IID)
    p, q = instance.problem.p, instance.problem.scheme.q
    best = np.minimum(p, q).sum()
    for problem, names in (
        (Problem(p, IID(q, 1)), ("single", "rrs", "kseq", "spechub")),
        (Problem(p, WithoutReplacement(q, 1)), ("single", "rsd")),
    ):
        for name in names:
            plan = plan_of(problem, name)
            assert plan.acceptance == pytest.approx(best, abs=ROUNDING)
            assert abs(plan.gap) <= ROUNDING


@iid
def test_lenience_gains_what_it_pays(instance: Instance) -> None:
    problem = instance.problem
    assert isinstance(problem.scheme, IID)
    p, q = problem.p, problem.scheme.q
    for lenience in (0.9, 0.3):
        plan = plan_of(problem, f"single:lenience={lenience}")
        assert plan.acceptance == pytest.approx(np.minimum(p / lenience, q).sum(), abs=ROUNDING)
        gained = plan.acceptance - np.minimum(p, q).sum()
        assert plan.deviation / 2 == pytest.approx(gained, abs=ROUNDING)
        assert plan.deviation <= plan.max_deviation + ROUNDING == pytest.approx(2 * (1 - lenience))
        assert_allclose(enumerate_plan(plan).output, plan.output_law(), rtol=0, atol=ROUNDING)
    strict = plan_of(problem, "single:lenience=1")
    assert_allclose(strict.output_law(), plan_of(problem, "single").output_law(), rtol=0, atol=0)
    with pytest.raises(UnknownSolver, match=r"lenience is 0; it is in \(0, 1\]"):
        get("single:lenience=0")


@every_rule
def test_samples_follow_the_conditional_law(rule: str) -> None:
    check_each(is_sampled_by_its_law, case=FEWER_CASES[rule])


def is_sampled_by_its_law(case: Case) -> None:
    plan = plan_of(case.problem, case.spelling)
    laws = [(drafts, plan.conditional(drafts)) for drafts in case.problem.scheme.support().drafts]
    drafts, law = min(laws, key=lambda pair: pair[1].max())  # after most tuples one token is all but certain
    total, rng = 500, np.random.default_rng(0)
    counts = np.bincount([plan.sample(drafts, rng) for _ in range(total)], minlength=law.size)
    # Binomial standard deviations, token by token; what has probability 0 is never put out.  The seed is fixed.
    assert (abs(counts - total * law) <= 5 * np.sqrt(total * law * (1 - law)) + 1e-6).all()


P5 = np.array([0.35, 0.05, 0.3, 0.1, 0.2])
Q5 = np.array([0.1, 0.3, 0.25, 0.3, 0.05])
PLAIN = {
    "naive": Problem(P5, IID(Q5, 3)),
    "single": Problem(P5, IID(Q5, 3)),
    "rrs": Problem(P5, IID(Q5, 3)),
    "kseq": Problem(P5, IID(Q5, 3)),
    "kseq:gamma=3": Problem(P5, IID(Q5, 3)),
    "rsd": Problem(P5, WithoutReplacement(Q5, 3)),
    "spechub": Problem(P5, HubPairs(Q5)),
}


@pytest.mark.parametrize("spelling", ["naive", "single"])
def test_a_law_that_nobody_knows_is_enumerated(spelling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = plan_of(Problem(P4, IID(Q4, 2)), spelling)
    monkeypatch.setattr(IID, "inclusion", lambda self: None)
    monkeypatch.setattr(IID, "first_draft", lambda self: None)
    plan = plan_of(Problem(P4, IID(Q4, 2)), spelling)
    assert plan.acceptance == pytest.approx(known.acceptance, abs=1e-15)
    large = Problem(np.full(5000, 2e-4), IID(np.full(5000, 2e-4), 3))
    result = solve(large, spelling, strict=False)
    assert result.status is Status.LIMIT
    assert "exceed max_cells" in result.message


# --- Large problems


@pytest.mark.parametrize("spelling", list(PLAIN))
def test_the_whole_vocabulary(spelling: str) -> None:
    problem = peaked_problem(128_256, 3)
    assert isinstance(problem.scheme, IID)
    q = problem.scheme.q
    scheme = {"rsd": WithoutReplacement(q, 3), "spechub": HubPairs(q)}.get(spelling, problem.scheme)
    result = solve(Problem(problem.p, scheme), spelling)
    plan = result.plan
    assert plan is not None
    assert plan.deviation <= 1e-12
    assert 0 < plan.acceptance <= plan.bound
    drafts = scheme.sample(np.random.default_rng(0))
    law = plan.conditional(drafts)
    assert law.min() >= 0
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    assert law[plan.sample(drafts, np.random.default_rng(0))] > 0

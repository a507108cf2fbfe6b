"""The published rules against their definitions, tuple by tuple; that they keep their promises is for the claims."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import IID, DraftScheme, HubPairs, Independent, Plan, Problem, Status, WithoutReplacement, solve
from otspec import WithoutReplacement as Distinct
from otspec.catalogue import get
from otspec.plans import BiasedPlan, Match, Sequential
from otspec.solvers import RSD
from otspec.solvers.rules.kseq import best_gamma
from otspec.solvers.rules.rsd import rejection
from tests.auditing import decoder_rules as rules
from tests.each import check_each, each
from tests.instances import P4, Q4, Instance, sample_of_each
from tests.oracles import Floats, Ints, all_tuples, check_plan, check_sampled, enumerate_plan, optimal_acceptance

ROUNDING = 1e-13
"""Sums over at most 216 tuples of a few factors each."""


def outcome(rule: rules.Rule, p: Floats, q: Floats, drafts: Ints) -> tuple[Floats, float]:
    """The law of the output given the drafts, and the probability that the rule itself accepts one of them."""
    return rules.as_law(rule)(p, q, drafts), 1 - math.prod(1 - passes for _, passes in rule(p, q, drafts).tests)


@dataclass(frozen=True)
class Case:
    """A rule on drafts that it is made for."""

    name: str
    spelling: str
    problem: Problem
    q: Floats
    definition: rules.Rule


def law_of_first(scheme: DraftScheme) -> Floats:
    """By enumeration of all tuples."""
    tuples = all_tuples(scheme)
    return np.eye(scheme.vocab)[tuples[:, 0]].T @ scheme.prob(tuples)


def without_replacement(scheme: IID) -> Distinct:
    """Drafts that all differ, as many as there can be up to n."""
    return Distinct(scheme.q, min(scheme.n, int(np.count_nonzero(scheme.q))))


RULES = ("naive", "single", "rrs", "kseq", "kseq:gamma=n", "rsd", "spechub")


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
            definitions = (
                rules.eagle,  # of a draw from p, draft by draft
                rules.single,
                rules.rrs,
                rules.kseq(best_gamma(p, law, problem.n)),
                rules.kseq(problem.n),
                rules.rsd,
                rules.single if problem.n == 1 else rules.spechub,
            )
            name = f"{type(problem.scheme).__name__}-{instance.name}"
            for rule, definition in zip(RULES, definitions, strict=True):
                spelling = rule.replace("=n", f"={problem.n}")
                if get(spelling).supports(problem) is None:
                    found[rule].append(Case(name, spelling, problem, laws.get(spelling, law), definition))
    return found


CASES = cases(sample_of_each(2))


def plan_of(problem: Problem, spelling: str) -> Plan:
    return solve(problem, spelling).plan  # strict: it found what the rule promises


@pytest.mark.parametrize("rule", RULES)
def test_rule_is_its_definition_and_its_figures_are_those_of_enumeration(rule: str) -> None:
    assert len(CASES[rule]) >= 30
    check_each(agrees_with_its_definition, case=CASES[rule])
    for case in CASES[rule][1::5]:
        check_sampled(plan_of(case.problem, case.spelling))


def agrees_with_its_definition(case: Case) -> None:
    plan = plan_of(case.problem, case.spelling)
    assert isinstance(plan, Match | Sequential)
    accepted = 0.0
    for drafts, probability in zip(*case.problem.scheme.support(), strict=True):
        law, passed = outcome(case.definition, case.problem.p, case.q, drafts)
        # Weighed by the tuple's probability: what is left of p after the tests can be so little that two ways to
        # compute it differ by more, after tuples that hardly ever occur.
        assert_allclose(probability * plan.conditional(drafts), probability * law, atol=ROUNDING)
        accepted += probability * passed
    assert plan.acceptance == pytest.approx(accepted, abs=ROUNDING)
    best, membership = optimal_acceptance(case.problem), check_plan(plan, atol=6 * ROUNDING).membership
    assert plan.membership == pytest.approx(membership, abs=ROUNDING)
    assert plan.bound == pytest.approx(best, abs=ROUNDING)
    assert plan.acceptance - ROUNDING <= plan.membership <= best + ROUNDING


iid = each(instance=[instance for instance in sample_of_each(4) if isinstance(instance.problem.scheme, IID)])


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
        check_plan(plan, off=plan.max_deviation)
    strict = plan_of(problem, "single:lenience=1")
    assert_allclose(strict.output_law(), plan_of(problem, "single").output_law(), rtol=0, atol=0)


@pytest.mark.parametrize("name", ["rsd", "rrs", "kseq"])
@iid
def test_the_true_bias_on_drafts_of_another_law_is_measured(instance: Instance, name: str) -> None:
    assert isinstance(instance.problem.scheme, IID)
    p, scheme = instance.problem.p, instance.problem.scheme
    q = scheme.q
    problem = Problem(p, scheme if name == "rsd" else without_replacement(scheme))
    definition = {"rsd": rules.rsd, "rrs": rules.rrs, "kseq": rules.kseq(best_gamma(p, q, problem.n))}[name]
    plan = solve(problem, f"{name}:allow_biased=true").plan
    assert isinstance(plan, BiasedPlan)
    output, accepted = np.zeros(problem.vocab), 0.0
    for drafts, probability in zip(*problem.scheme.support(), strict=True):
        law, passed = outcome(definition, p, q, drafts)
        output += probability * law
        accepted += probability * passed
    found = enumerate_plan(plan)
    assert found.undue == 0
    assert plan.deviation == pytest.approx(np.abs(output - p).sum(), abs=ROUNDING)
    assert plan.acceptance == pytest.approx(accepted, abs=ROUNDING)
    assert plan.membership == pytest.approx(found.membership, abs=ROUNDING)
    # A rule that deviates can accept more than the optimum, by no more than half of what it deviates.
    assert plan.membership <= optimal_acceptance(problem) + plan.deviation / 2 + ROUNDING


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


# --- K-SEQ's gamma


def bisected_gamma(p: Floats, q: Floats, n: int) -> float:
    """The least gamma with 1 - (1 - beta)**n <= gamma beta, by bisection."""
    low, high = 1.0, float(n)
    for _ in range(200):
        gamma = (low + high) / 2
        beta = float(np.minimum(q, p / gamma).sum())
        if sum((1 - beta) ** j for j in range(n)) <= gamma:
            high = gamma
        else:
            low = gamma
    return high


@iid
def test_best_gamma_is_the_least_that_leaves_nothing_negative(instance: Instance) -> None:
    assert isinstance(instance.problem.scheme, IID)
    p, q, n = instance.problem.p, instance.problem.scheme.q, instance.problem.n
    gamma, bisected = best_gamma(p, q, n), bisected_gamma(p, q, n)
    failures = [1 - np.minimum(q, p / value).sum() for value in (gamma, bisected)]
    assert 1 <= gamma <= n
    assert sum(failures[0] ** j for j in range(n)) <= gamma + ROUNDING
    # Where p and q nearly agree, failure**n is so flat that gamma itself has few digits; what is accepted has all.
    assert failures[0] ** n == pytest.approx(failures[1] ** n, abs=ROUNDING)


def test_a_gamma_that_is_too_small_is_refused_or_measured() -> None:
    problem = Problem(P4, IID(Q4, 3))
    best = best_gamma(P4, Q4, 3)
    assert best > 1.3
    refused = solve(problem, "kseq:gamma=1.3", strict=False)
    assert refused.status is Status.UNSUPPORTED
    assert f"gamma = 1.3 is below {best:.9g}, the least that is lossless here" in refused.message
    result = solve(problem, "kseq:gamma=1.3:allow_biased=true")
    assert result.status is Status.LOSSY
    plan = result.plan
    assert plan is not None
    assert plan.deviation == pytest.approx(np.abs(enumerate_plan(plan).output - P4).sum(), abs=ROUNDING)
    assert plan.deviation > 0.01
    assert plan.acceptance > plan_of(problem, "kseq").acceptance  # the bias looks like an improvement


# --- rejection without replacement


@each(sizes=[(40, 2), (40, 3), (8, 4), (6, 5)], concentration=(0.1, 1.0))
def test_rejection_without_replacement_is_exact_or_a_bound(sizes: tuple[int, int], concentration: float) -> None:
    vocab, n = sizes
    rng = np.random.default_rng(vocab + n)
    for _ in range(2):
        p, q = rng.dirichlet(np.full(vocab, concentration), 2)
        exact = rejection(p, q, n, vocab**n)
        plan = RSD().rule(Problem(p, WithoutReplacement(q, n)), q)
        if vocab <= 8:
            drafts, probabilities = WithoutReplacement(q, n).support()
            outcomes = [1.0 - outcome(rules.rsd, p, q, row)[1] for row in drafts]
            assert exact == pytest.approx(probabilities @ outcomes, abs=1e-12)
        assert plan.acceptance == pytest.approx(1.0 - exact, abs=1e-15)
        from_above = [rejection(p, q, n, histories) for histories in (vocab ** (n - 1) - 1, 3 ** (n - 1), 1)]
        assert min(from_above) >= exact - ROUNDING
        assert from_above[0] - exact < 0.02  # close by
        single = np.maximum(q - p, 0.0).sum()
        assert max(from_above) <= single + ROUNDING
    assert rejection(P4, np.array([1, *[1e-310] * 3]), 3, 64) == pytest.approx(0.05)  # the same as with 1e-300


def test_enumeration_has_a_size_limit() -> None:
    problem = Problem(np.full(500, 0.002), WithoutReplacement(np.full(500, 0.002), 4))
    result = solve(problem, "rrs:allow_biased=true", strict=False)
    assert result.status is Status.LIMIT
    assert "output probabilities exceed max_cells = 20,000,000" in result.message

"""The published rules against their definitions, tuple by tuple, and against theorems."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chisquare

from otspec import (
    IID,
    DraftScheme,
    Greedy,
    HubPairs,
    Independent,
    Plan,
    Problem,
    ProblemError,
    SolveError,
    Status,
    Table,
    WithoutReplacement,
    optimum,
    solve,
)
from otspec.catalogue import get
from otspec.certificate import FLOW_CELLS, upper_bound
from otspec.plans import BiasedPlan, Match, Sequential
from otspec.solvers import RRS, RSD, KSeq
from otspec.solvers.rules.kseq import best_gamma
from otspec.solvers.rules.rsd import rejection
from tests import published
from tests.each import check_each, each
from tests.instances import BY_FAMILY, P4, Q4, Instance, peaked_problem, sample_of_each
from tests.laws import softmax
from tests.oracles import Floats, all_tuples, enumerate_plan, optimal_acceptance
from tests.published import Simulation

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
                published.spechub,
            )
            name = f"{type(problem.scheme).__name__}-{instance.name}"
            for rule, simulation in zip(RULES, simulations, strict=True):
                spelling = rule.replace("=n", f"={problem.n}")
                if get(spelling).supports(problem) is None:
                    found[rule].append(Case(name, spelling, problem, laws.get(spelling, law), simulation))
    return found


CASES = cases([*BY_FAMILY["known"], *sample_of_each(2)])


def plan_of(problem: Problem, spelling: str) -> Plan:
    plan = solve(problem, spelling).plan  # strict: the front door found what the rule promises
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
        (Problem(p, IID(q, 1)), ("single", "rrs", "kseq")),
        (Problem(p, WithoutReplacement(q, 1)), ("single", "rsd")),
    ):
        for name in names:
            plan = plan_of(problem, name)
            assert plan.acceptance == pytest.approx(best, abs=ROUNDING)
            assert abs(plan.gap) <= ROUNDING


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


@pytest.mark.parametrize("spelling", list(PLAIN))
def test_drafting_and_verifying_together_put_out_the_target(spelling: str) -> None:
    problem, rng = PLAIN[spelling], np.random.default_rng(0)
    plan = plan_of(problem, spelling)
    outputs = [plan.sample(drafts, rng) for drafts in problem.scheme.sample(rng, 4000)]
    assert chisquare(np.bincount(outputs, minlength=5), 4000 * P5).pvalue > 1e-3  # fixed seed


# --- K-SEQ's gamma


@iid
def test_best_gamma_is_the_least_that_leaves_nothing_negative(instance: Instance) -> None:
    assert isinstance(instance.problem.scheme, IID)
    p, q, n = instance.problem.p, instance.problem.scheme.q, instance.problem.n
    gamma, bisected = best_gamma(p, q, n), published.best_gamma(p.tolist(), q.tolist(), n)
    failures = [1 - np.minimum(q, p / value).sum() for value in (gamma, bisected)]
    assert 1 <= gamma <= n
    assert sum(failures[0] ** j for j in range(n)) <= gamma + ROUNDING
    # Where p and q nearly agree, failure**n is so flat that gamma itself has few digits; what is accepted has all.
    assert failures[0] ** n == pytest.approx(failures[1] ** n, abs=ROUNDING)


def test_known_gammas() -> None:
    assert best_gamma(P4, P4, 3) == pytest.approx(1.0, abs=1e-15)  # every draft passes
    assert best_gamma(np.array([1.0, 0.0]), np.array([0.0, 1.0]), 3) == 3.0  # none does
    # p = (1, 0), n = 2: beta = min(q, 1/gamma) = q below gamma = 1/q, so gamma = 1 + (1 - q).
    assert best_gamma(np.array([1.0, 0.0]), np.array([0.25, 0.75]), 2) == pytest.approx(1.75, rel=1e-15)


@each(gamma=(0.5, -1.0, math.nan, math.inf))
def test_gamma_has_a_range(gamma: float) -> None:
    with pytest.raises(ValueError, match="it is at least 1, or 0 to solve for the best"):
        KSeq(gamma=gamma)


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
    enumeration = enumerate_plan(plan)
    assert plan.deviation == pytest.approx(np.abs(enumeration.output - P4).sum(), abs=ROUNDING)
    assert plan.deviation > 0.01
    assert plan.acceptance > plan_of(problem, "kseq").acceptance  # the bias looks like an improvement


# --- Drafts of the wrong law

TOP_TWO = Table(np.array([[3, 2]]), np.ones(1), 4)


def test_a_rule_refuses_drafts_that_it_is_not_lossless_for() -> None:
    result = solve(Problem(P4, WithoutReplacement(Q4, 2)), "rrs", strict=False)
    assert result.status is Status.UNSUPPORTED
    assert result.message == (
        "rrs is lossless for independent drafts only, not for WithoutReplacement: each test takes the draft for a "
        "fresh draw from q; pass otspec.IID, choose another solver, or measure the bias with rrs:allow_biased=true"
    )
    with pytest.raises(SolveError, match=r"rsd is lossless for drafts without replacement only, not for IID"):
        solve(Problem(P4, IID(Q4, 2)), "rsd")
    with pytest.raises(SolveError, match=r"kseq is lossless for i\.i\.d\. drafts only, not for Table"):
        solve(Problem(P4, TOP_TWO), "kseq")
    with pytest.raises(SolveError, match=r"spechub takes hub pairs \(otspec\.HubPairs\), not IID"):
        solve(Problem(P4, IID(Q4, 2)), "spechub")


@pytest.mark.parametrize("name", ["rsd", "rrs", "kseq"])
@iid
def test_the_true_bias_is_measured(instance: Instance, name: str) -> None:
    assert isinstance(instance.problem.scheme, IID)
    p, scheme = instance.problem.p, instance.problem.scheme
    q = scheme.q
    problem = Problem(p, scheme if name == "rsd" else without_replacement(scheme))
    simulation = {
        "rsd": published.rsd,
        "rrs": published.rrs,
        "kseq": published.kseq(best_gamma(p, q, problem.n)),
    }[name]
    plan = solve(problem, f"{name}:allow_biased=true").plan
    assert isinstance(plan, BiasedPlan)
    output, accepted = np.zeros(problem.vocab), 0.0
    for drafts, probability in zip(*problem.scheme.support(), strict=True):
        outcome = simulation(p, q, drafts)
        output += probability * np.array(outcome.law)
        accepted += probability * outcome.accepted
    assert plan.deviation == pytest.approx(np.abs(output - p).sum(), abs=ROUNDING)
    assert plan.acceptance == pytest.approx(accepted, abs=ROUNDING)
    assert plan.membership == pytest.approx(enumerate_plan(plan).membership, abs=ROUNDING)
    # A rule that deviates can accept more than the optimum, by no more than half of what it deviates.
    assert plan.membership <= optimal_acceptance(problem) + plan.deviation / 2 + ROUNDING


def test_insisting_on_the_right_law_in_other_clothes_is_lossless() -> None:
    drafts, probabilities = WithoutReplacement(Q4, 3).support()
    problem = Problem(P4, Table(drafts, probabilities, 4))
    plan = solve(problem, "rsd:allow_biased=true").plan
    assert plan is not None
    assert plan.deviation <= ROUNDING
    assert plan.acceptance == pytest.approx(
        plan_of(Problem(P4, WithoutReplacement(Q4, 3)), "rsd").acceptance, abs=1e-14
    )


def test_wrong_drafts_raise_acceptance_beyond_the_optimum() -> None:
    # The likeliest two tokens of q, tested as if drawn from q: token 0 always passes, and is all that is ever put out.
    q = np.array([0.4, 0.4, 0.1, 0.1])
    plan = RRS(allow_biased=True).biased_plan(Problem(P4, Table(np.array([[0, 1]]), np.ones(1), 4)), q)
    assert plan.acceptance == pytest.approx(1.0, abs=1e-15)
    assert plan.bound == pytest.approx(0.7, abs=1e-15)
    assert_allclose(plan.output_law(), [1.0, 0.0, 0.0, 0.0], rtol=0, atol=1e-15)
    assert plan.deviation == pytest.approx(1.2, abs=1e-15)
    assert plan.max_deviation == 2.0


def test_enumeration_has_a_size_limit() -> None:
    problem = Problem(np.full(500, 0.002), WithoutReplacement(np.full(500, 0.002), 4))
    result = solve(problem, "rrs:allow_biased=true", strict=False)
    assert result.status is Status.LIMIT
    assert "output probabilities exceed max_cells = 20,000,000" in result.message


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


@pytest.mark.parametrize("spelling", ["single", "rrs", "kseq"])
def test_drafts_that_cannot_be_are_refused(spelling: str) -> None:
    plan = plan_of(Problem(np.array([0.5, 0.3, 0.2]), IID(np.array([0.5, 0.5, 0.0]), 2)), spelling)
    with pytest.raises(ProblemError, match="have probability 0 under the scheme"):
        plan.conditional(np.array([0, 2]))
    with pytest.raises(ProblemError, match="have probability 0 under the scheme"):
        plan.sample(np.array([2, 0]), np.random.default_rng(0))


# --- Another implementation

Kind = Callable[[Floats, int], DraftScheme]


def top_n(q: Floats, n: int) -> Table:
    """The n likeliest tokens, always."""
    return Table(np.argsort(-q, kind="stable")[None, :n], np.ones(1), q.size)


ELSEWHERE: dict[str, tuple[str, Kind, tuple[float, float, float]]] = {
    "single, i.i.d.": ("single", IID, (0.774, 0.866, 0.866)),
    "naive, i.i.d.": ("naive", IID, (0.633, 0.716, 0.716)),
    "naive, without replacement": ("naive", WithoutReplacement, (0.781, 0.925, 0.815)),
    "naive, top n": ("naive", top_n, (0.822, 0.960, 1.0)),
    "rrs, i.i.d.": ("rrs", IID, (0.837, 0.948, 0.948)),
    "kseq, i.i.d.": ("kseq", IID, (0.853, 0.966, 0.966)),
    "kseq:gamma=n, i.i.d.": ("kseq:gamma={n}", IID, (0.677, 0.778, 0.778)),
    "rsd, without replacement": ("rsd", WithoutReplacement, (0.914, 1.082, 0.954)),
    "spechub, hub pairs (n = 2)": ("spechub", lambda q, n: HubPairs(q), (0.937, 1.120, 1.0)),
}
"""Rule, drafts, mean acceptance, and mean ratios to alpha* of i.i.d. drafts and of the rule's own drafts: three digits.

By an enumeration that shares no code with this project, over 100 other problems drawn from the same distribution."""


def softmax_problem(rng: np.random.Generator) -> tuple[Floats, Floats, int]:
    """p, q and n < V of that distribution: over 3 to 5 tokens, q from the logits of p with errors, n = 2 or 3."""
    vocab = int(rng.integers(3, 6))
    n = int(rng.integers(2, min(4, vocab)))
    logits = rng.choice([0.7, 1.5, 2.5]) * rng.normal(size=vocab)
    errors = rng.choice([0.4, 1.0, 2.0]) * rng.normal(size=vocab)
    return softmax(logits), softmax(logits + errors), n


@each(label=ELSEWHERE)
def test_mean_acceptance_agrees_with_another_implementation(
    label: tuple[str, Kind, tuple[float, float, float]],
) -> None:
    spelling, kind, elsewhere = label
    ours, rng, rows = 200, np.random.default_rng(1), []
    for p, q, n in (softmax_problem(rng) for _ in range(ours)):
        problem = Problem(p, kind(q, n))
        accepted = plan_of(problem, spelling.format(n=n)).acceptance
        iid = Problem(p, IID(q, problem.n))
        rows.append([accepted, accepted / optimum(iid).acceptance, accepted / optimum(problem).acceptance])
    found = np.array(rows)
    # Four standard deviations of the difference of two means, and what rounding to three digits may hide.
    spread = found.std(axis=0, ddof=1) * math.sqrt(1 / ours + 1 / 100)
    assert (np.abs(found.mean(axis=0) - elsewhere) <= 4 * spread + 5e-4).all()


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


@each(sizes=[(40, 2), (40, 3), (8, 4), (6, 5)], concentration=(0.1, 1.0))
def test_rejection_without_replacement_is_exact_or_a_bound(sizes: tuple[int, int], concentration: float) -> None:
    vocab, n = sizes
    rng = np.random.default_rng(vocab + n)
    for _ in range(3):
        p, q = rng.dirichlet(np.full(vocab, concentration), 2)
        exact = rejection(p, q, n, vocab**n)
        plan = RSD().rule(Problem(p, WithoutReplacement(q, n)), q)
        if vocab <= 8:
            drafts, probabilities = WithoutReplacement(q, n).support()
            outcomes = [1.0 - published.rsd(p, q, row).accepted for row in drafts]
            assert exact == pytest.approx(probabilities @ outcomes, abs=1e-12)
        assert plan.acceptance == pytest.approx(1.0 - exact, abs=1e-15)
        from_above = [rejection(p, q, n, histories) for histories in (vocab ** (n - 1) - 1, 3 ** (n - 1), 1)]
        assert min(from_above) >= exact - ROUNDING
        assert from_above[0] - exact < 0.02  # close by
        single = np.maximum(q - p, 0.0).sum()
        assert max(from_above) <= single + ROUNDING


def test_the_bound_of_a_scheme_without_an_order_holds_at_any_size() -> None:
    rng = np.random.default_rng(0)
    for vocab in (6, 2000):
        p = rng.dirichlet(np.ones(vocab))
        tuples = np.unique(rng.integers(vocab, size=(FLOW_CELLS, 3)), axis=0)[: 10 * vocab]
        problem = Problem(p, Table(tuples, rng.dirichlet(np.ones(len(tuples))), vocab))
        bound = upper_bound(problem)
        assert bound >= plan_of(problem, "max_flow").acceptance - ROUNDING
        assert bound <= 1.0 + ROUNDING


def test_settings_have_ranges() -> None:
    with pytest.raises(ValueError, match="max_histories is 0; follow at least one"):
        RSD(max_histories=0)

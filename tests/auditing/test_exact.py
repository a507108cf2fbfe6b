"""Rules that give their law: biased ones are flagged with their true distance, lossless ones pass."""

from typing import Any

import numpy as np
import pytest

import otspec
from otspec import IID, AuditVerdict, Problem, WithoutReplacement
from otspec.schemes.catalogue import OWN as SCHEMES
from otspec.solvers import RRS, RSD
from tests.auditing import decoder_rules as rules
from tests.auditing.decoder_rules import BIASED, LOSSLESS, Law, as_law
from tests.each import each
from tests.oracles import Floats, Ints


@pytest.mark.parametrize("name", LOSSLESS)
def test_lossless_rules_pass(name: str) -> None:
    rule, scheme, n = LOSSLESS[name].law, *LOSSLESS[name][2:]
    audit = otspec.audit(rule, scheme, n)
    assert audit.verdict is AuditVerdict.LOSSLESS
    assert audit.outcome.method == "exact"
    assert len(audit.instances) > 30
    assert max(one.tv for one in audit.instances) <= 1e-12
    assert not audit.findings
    for one in audit.instances:
        assert one.optimum is not None
        assert one.membership <= one.optimum + 1e-12


@pytest.mark.parametrize("name", BIASED)
def test_biased_rules_are_flagged(name: str) -> None:
    rule, scheme, n = BIASED[name].law, *BIASED[name][2:]
    audit = otspec.audit(rule, scheme, n)
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    assert audit.tv is not None
    assert audit.tv > 0.1
    # The witness is enough to see it again.
    worst = audit.worst
    assert worst is not None
    output = np.zeros(len(worst.p))
    for drafts, chance in zip(*SCHEMES[scheme](np.array(worst.q), worst.n).support(), strict=True):
        output += chance * rule(np.array(worst.p), np.array(worst.q), drafts)
    np.testing.assert_allclose(output, worst.output, atol=1e-12)
    assert np.abs(output - worst.p).sum() / 2 == pytest.approx(audit.tv, abs=1e-12)


@pytest.mark.parametrize(
    ("rule", "solver", "scheme"), [(rules.rrs, RRS, "without_replacement"), (rules.rsd, RSD, "iid")]
)
def test_the_distance_is_the_one_that_solvers_measure(rule: rules.Rule, solver: type[RRS | RSD], scheme: str) -> None:
    rng = np.random.default_rng(0)
    pairs = [tuple(rng.dirichlet(np.ones(4), 2)) for _ in range(5)]
    audit = otspec.audit(as_law(rule), scheme, 2, instances=pairs)
    for one, (p, q) in zip(audit.instances, pairs, strict=True):
        plan = solver(allow_biased=True).biased_plan(Problem(p, SCHEMES[scheme](q, 2)), q)
        assert one.tv == pytest.approx(plan.deviation / 2, abs=1e-12)
        assert one.membership == pytest.approx(plan.membership, abs=1e-12)
        assert one.optimum == pytest.approx(plan.bound, abs=1e-12)


def test_accepting_more_than_the_optimum_is_said() -> None:
    audit = otspec.audit(as_law(rules.siblings_by_ratio), "top_k")
    assert "it accepts more than any lossless rule can" in str(audit)
    assert max(one.excess for one in audit.instances) > 0.3
    assert audit.mean("optimum_iid") != audit.mean("optimum")


def truncated(q: Floats, n: int) -> IID:
    """Drafts of the two likeliest tokens."""
    return IID(rules.top(q, 2), n)


def test_drafts_truncated_and_the_raw_q_told() -> None:
    rng = np.random.default_rng(1)
    pairs = [(rules.top(p, 2), q) for p, q in rng.dirichlet(np.ones(4), (20, 2))]
    audit = otspec.audit(as_law(rules.single), "iid", 1, drafter=truncated, instances=pairs)
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    assert any("the drafts do not have the law that the rule is told of" in one.message for one in audit.findings)
    told = otspec.audit(as_law(rules.single), truncated, 1, shown=lambda q: rules.top(q, 2), instances=pairs)
    assert told.verdict is AuditVerdict.LOSSLESS


def test_a_plan_for_other_drafts_is_asked_what_it_does_with_these() -> None:
    audit = otspec.audit(RRS(allow_biased=True), WithoutReplacement, 2)
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    refused = otspec.audit("rrs", "without_replacement", 2)
    assert refused.verdict is AuditVerdict.INCONCLUSIVE
    assert "refused on" in str(refused)


OURS = [*(("iid", rule) for rule in ("kseq", "interval", "naive", "max_flow")), ("hub_pairs", "spechub")]


@each(case=[*OURS, ("iid", lambda problem: otspec.solve(problem).plan)])
def test_our_solvers_pass(case: tuple[str, Any]) -> None:
    scheme, rule = case
    assert otspec.audit(rule, scheme, n=2).verdict is AuditVerdict.LOSSLESS


def test_a_rule_may_be_told_distinct_laws() -> None:
    def rule(p: Floats, q: Floats, drafts: Ints) -> Floats:
        tests, last = rules.recursive(p, q, drafts.tolist())
        return as_law(lambda *_: rules.Script(tests, last))(p, q, drafts)

    audit = otspec.audit(rule, "independent", 2)
    assert audit.verdict is AuditVerdict.LOSSLESS
    assert audit.mean("optimum_iid") is None
    only_first = otspec.audit(lambda p, q, drafts: as_law(rules.rrs)(p, q[0], drafts), "independent", 2)
    assert only_first.verdict is AuditVerdict.NOT_LOSSLESS


def nan_where_nothing_is_left(p: Floats, q: Floats, drafts: Ints) -> Floats:
    """The usual division by the sum of the residual, which is 0 for p = q."""
    rest = np.maximum(p - q, 0)
    law: Floats = (1 - rules.ratio(p[drafts[0]], q[drafts[0]])) * rest / rest.sum()
    law[drafts[0]] += rules.ratio(p[drafts[0]], q[drafts[0]])
    return law


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (nan_where_nothing_is_left, "returns a law that holds nan"),
        (lambda p, q, drafts: p[:-1], "returns an array of shape (1,), not a law of shape (2,)"),
        (lambda p, q, drafts: p / 2, "returns a law that sums to 0.5"),
        (lambda p, q, drafts: 2 * p - np.roll(p, 1), "below 0"),
        (lambda p, q, drafts: "p", "returns 'p', which is not a law"),
        (lambda p, q, drafts: q[len(q)], "raises IndexError"),
    ],
)
def test_what_is_no_law_is_a_finding_with_its_instance(rule: Law, message: str) -> None:
    audit = otspec.audit(rule, "iid", 1)
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    assert message in audit.findings[0].message
    assert audit.findings[0].bias
    assert audit.worst is not None
    assert audit.worst.drafts is not None


def test_writing_to_the_arguments_is_seen_and_undone() -> None:
    def rule(p: Floats, q: Floats, drafts: Ints) -> Floats:
        law = p.copy()
        p *= 0.5
        drafts[:] = 0
        return law

    audit = otspec.audit(rule)
    assert audit.verdict is AuditVerdict.LOSSLESS
    assert [one.message.partition(" (")[0] for one in audit.findings] == [
        "the rule writes to its argument p",
        "the rule writes to its argument drafts",
    ]


def test_step_acceptance_is_reported_where_the_rule_says_it() -> None:
    def rule(p: Floats, q: Floats, drafts: Ints) -> tuple[Floats, float]:
        return as_law(rules.single)(p, q, drafts), rules.ratio(p[drafts[0]], q[drafts[0]])

    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    (one,) = otspec.audit(rule, n=2, instances=[(p, q)]).instances
    assert one.step_acceptance == pytest.approx(0.2 + 0.2 + 0.2, abs=1e-12)
    assert one.membership > 0.6 + 1e-3  # the residual may hit the draft that was not tested


@pytest.mark.parametrize(
    ("accepted", "message"),
    [
        (7, "says that it accepts with probability 7, which is not in [0, 1]"),
        (-0.1, "says that it accepts with probability -0.1, which is not in [0, 1]"),
        (np.nan, "says that it accepts with probability nan, which is not in [0, 1]"),
        ("often", "says that it accepts with probability 'often', which is not a number"),
        (1.0, "says that it accepts with probability 1, and puts out a draft with 0.3 only"),
    ],
)
def test_an_acceptance_that_is_no_probability_is_a_finding(accepted: object, message: str) -> None:
    pairs = [([0.7, 0.3], [0.0, 1.0])]
    audit = otspec.audit(lambda p, q, drafts: (p, accepted), instances=pairs)
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    assert message in audit.findings[0].message
    assert audit.worst is not None
    assert audit.worst.drafts == [1, 1, 1]


def test_float32_laws_need_a_tolerance() -> None:
    def rule(p: Floats, q: Floats, drafts: Ints) -> Floats:
        return p.astype(np.float32).astype(np.float64)

    assert otspec.audit(rule).verdict is AuditVerdict.NOT_LOSSLESS
    assert otspec.audit(rule, tol=1e-6).verdict is AuditVerdict.LOSSLESS

"""What is special to rules for one position: solvers, drafters, batches, what a rule reports, and what it is shown."""

from functools import partial
from typing import Any

import numpy as np
import pytest

import otspec
from otspec import IID, AuditVerdict, ProblemError, TopK, WithoutReplacement
from otspec.solvers import RRS
from tests.auditing import decoder_rules as rules
from tests.auditing.decoder_rules import as_law, as_sampler
from tests.auditing.forms import BATCHES, of_rows
from tests.oracles import Floats, Ints

COARSE = 0.3
"""A resolution that takes a few thousand draws."""


def test_a_biased_rule_is_flagged_with_a_witness_and_accepts_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    audit = otspec.audit(as_law(rules.siblings_by_ratio), "top_k")
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    assert audit.tv is not None
    assert audit.tv > 0.1
    worst: Any = audit.worst  # the witness is enough to see it again
    output = np.zeros(len(worst.p))
    for drafts, chance in zip(*TopK(np.array(worst.q), worst.n).support(), strict=True):
        output += chance * as_law(rules.siblings_by_ratio)(np.array(worst.p), np.array(worst.q), drafts)
    np.testing.assert_allclose(output, worst.output, atol=1e-12)
    assert np.abs(output - worst.p).sum() / 2 == pytest.approx(audit.tv, abs=1e-12)
    assert "it accepts more than any lossless rule can" in " ".join(str(audit).split())
    monkeypatch.setenv("COLUMNS", "72")
    assert max(map(len, str(audit).splitlines())) <= 72
    assert max(one.excess for one in audit.instances) > 0.3
    assert audit.mean("optimum_iid") != audit.mean("optimum")
    data = audit.as_dict()
    assert (data["verdict"], data["tv"], data["worst"]["p"]) == ("not lossless", audit.tv, worst.p)
    assert len(data["instances"]) == len(audit.instances) > 30


def truncated(q: Floats, n: int) -> IID:
    """Drafts of the two likeliest tokens."""
    return IID(rules.top(q, 2), n)


def writes(p: Floats, q: Floats, drafts: Ints) -> Floats:
    law = p.copy()
    p *= 0.5
    drafts[:] = 0
    return law


def in_float32(p: Floats, q: Floats, drafts: Ints) -> Floats:
    return p.astype(np.float32).astype(np.float64)


def batched(p: Any, q: Any, drafts: Any, coins: Any, bug: str) -> Any:
    """A draw from the target of each row; coins is a generator, or uniforms of shape (B, m)."""
    import torch

    if isinstance(coins, torch.Generator):
        coins = torch.rand(len(p), 1, generator=coins, dtype=p.dtype)
    if bug == "one coin for all rows":
        coins = coins[:1].expand(len(p), -1)
    if bug == "target of the first row":
        p = p[:1].expand_as(p)
    if bug == "writes to p":
        p.mul_(1.0 + 1e-9)
    return of_rows(p, coins)


NOT, YES = "not lossless", "lossless"
CUT = [(rules.top(p, 2), q) for p, q in np.random.default_rng(1).dirichlet(np.ones(4), (20, 2))]
BUGS = ("one coin for all rows", "target of the first row")
VERDICTS: dict[str, tuple[Any, dict[str, Any], str, tuple[str, ...]]] = {
    "EAGLE-2, top-k tree": (as_law(rules.eagle), {"scheme": "top_k"}, YES, ()),
    "distinct drafts, drawn": (as_sampler(rules.rsd), {"scheme": "without_replacement", "resolution": COARSE}, YES, ()),
    "greedy drafts": (as_law(rules.greedy), {"scheme": "greedy"}, YES, ()),
    "i.i.d. drafts, without-replacement rule": (as_law(rules.rsd), {}, NOT, ()),
    "a plan for other drafts": (RRS(allow_biased=True), {"scheme": WithoutReplacement, "n": 2}, NOT, ()),
    "a plan that is refused": ("rrs", {"scheme": "without_replacement", "n": 2}, "inconclusive", ("refused on",)),
    "drafts truncated": (
        *(as_law(rules.single), {"n": 1, "drafter": truncated, "instances": CUT}, NOT),
        ("the drafts do not have the law declared to the rule",),
    ),
    "drafts truncated, and q shown": (
        *(as_law(rules.single), {"scheme": truncated, "n": 1, "shown": lambda q: rules.top(q, 2), "instances": CUT}),
        *(YES, ()),
    ),
    "laws of their own": (as_law(rules.rrs), {"scheme": "independent", "n": 2}, YES, ()),
    "writes": (writes, {}, YES, ("the rule writes to its argument p", "the rule writes to its argument drafts")),
    "float32": (in_float32, {}, NOT, ()),
    "float32 with a tolerance": (in_float32, {"tol": 1e-6}, YES, ()),
    # Two numbers, not a law and its acceptance.
    "a tuple": (lambda p, q, drafts: tuple(p), {"instances": [([0.3, 0.7], [0.5, 0.5])]}, YES, ()),
    **{f"{form}, {bug}": (partial(batched, bug=bug), {"form": form}, NOT, ()) for form in BATCHES for bug in BUGS},
    "a batch that is written to": (
        *(partial(batched, bug="writes to p"), {"form": "torch", "resolution": COARSE}, YES),
        ("writes to its argument p",),
    ),
}
"""Rules, how they are audited, the verdict, and what is found beside it."""


@pytest.mark.parametrize("name", VERDICTS)
def test_what_is_said_of_a_rule(name: str) -> None:
    rule, settings, verdict, said = VERDICTS[name]
    if settings.get("form") in BATCHES:
        pytest.importorskip("torch")
    audit = otspec.audit(rule, **settings)
    assert audit.verdict.value == verdict
    assert audit.outcome.draws < 20_000 or verdict == YES
    found = "; ".join(one.message for one in audit.findings)
    assert all(words in found for words in said) if said else verdict != YES or not found
    if name.endswith("drawn"):
        assert {one.vocab for one in audit.instances} >= {4, 5, 50, 1000}
    within = settings.get("tol", 1e-12)
    if verdict == YES and audit.outcome.method == "exact":
        assert max(one.tv for one in audit.instances) <= within
    for one in audit.instances:
        assert verdict != YES or one.optimum is None or one.membership - one.membership_error <= one.optimum + within
    assert (audit.mean("optimum_iid") is None) == (settings.get("scheme") == "independent") or said or verdict == NOT


def test_step_acceptance_is_reported_where_the_rule_says_it() -> None:
    def rule(p: Floats, q: Floats, drafts: Ints) -> tuple[Floats, float]:
        return as_law(rules.single)(p, q, drafts), rules.ratio(p[drafts[0]], q[drafts[0]])

    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    (one,) = otspec.audit(rule, n=2, instances=[(p, q)]).instances
    assert one.step_acceptance == pytest.approx(0.2 + 0.2 + 0.2, abs=1e-12)
    assert one.membership > 0.6 + 1e-3  # the residual may hit the draft that was not tested


def test_uniforms_are_handed_as_many_as_asked_for() -> None:
    seen = set()

    def rule(p: Floats, q: Floats, drafts: Ints, uniforms: Floats) -> int:
        seen.add(uniforms.shape)
        return rules.draw(p, uniforms[0])

    assert otspec.audit(rule, n=2, resolution=COARSE).verdict is AuditVerdict.LOSSLESS
    otspec.audit(rule, n=2, resolution=COARSE, uniforms=9)
    assert seen == {(5,), (9,)}


def test_a_rule_may_say_which_draft_it_accepted() -> None:
    audit = otspec.audit(otspec.verify, n=2, resolution=COARSE)
    assert audit.verdict is AuditVerdict.LOSSLESS
    for one in audit.instances:
        assert one.step_acceptance is not None
        assert 0 <= one.step_acceptance <= one.membership


def test_plans_can_be_sampled_too() -> None:
    rng = np.random.default_rng(0)
    logits = [tuple(rng.normal(size=(2, 30)))]  # 27 000 tuples are too many to be listed
    mixed = otspec.audit("interval", n=3, logits=logits, instances=[([0.5, 0.5], [0.5, 0.5])], resolution=COARSE)
    assert mixed.verdict is AuditVerdict.LOSSLESS
    assert (mixed.outcome.method, len(mixed.instances)) == ("sampled", 2)  # none of the user's is left out
    assert "gives no plan, but Solved; return" in otspec.audit(otspec.solve, n=2, form="plan").reason


@pytest.mark.parametrize("method", ["exact", "sampled"])
def test_what_is_said_of_a_rule_that_refuses_instances_is_not_said_of_all(method: str) -> None:
    def rule(problem: otspec.Problem) -> otspec.Plan | None:
        if problem.vocab > 3:
            raise ProblemError("three tokens at most")
        return otspec.solve(problem).plan

    audit = otspec.audit(rule, n=2, method=method, resolution=COARSE)
    assert audit.verdict is AuditVerdict.INCONCLUSIVE
    tried, cases = len(audit.instances), audit.outcome.cases
    assert 0 < tried < cases
    assert f"on {tried} of {cases} instances" in audit.reason
    assert f"refused on {cases - tried} of {cases} instances: three tokens at most (on '" in audit.findings[0].message
    assert {one.vocab for one in audit.instances} <= {2, 3}


def test_the_audit_stops_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that a rule moves: each call takes a second."""
    now = [0.0]
    monkeypatch.setattr("otspec.auditing.rules.subject.time.monotonic", lambda: now[0])

    def law(p: Floats, q: Floats, drafts: Ints) -> Floats:
        now[0] += 1
        return p

    exact = otspec.audit(law, n=2, max_seconds=100.5)
    assert (now, exact.verdict) == ([101], AuditVerdict.INCONCLUSIVE)
    tried = len(exact.instances)
    assert f"the 100.5 s were up after {tried} of 58 instances: the output law is p on {tried}" in exact.reason
    assert f"every tuple of drafts of {tried} of 58 instances" in str(exact)

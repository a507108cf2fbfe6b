"""The forms of a rule: how they are called, and what is said of their answers."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import otspec
from otspec import AuditVerdict, ProblemError
from otspec.solvers import KSeq
from tests.auditing import decoder_rules as rules
from tests.oracles import Floats, Ints

COARSE = 0.2


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
        assert one.step_acceptance <= one.membership


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda p, drafts: p.size, "token ids run from 0 to"),
        (lambda p, drafts: -1, "returns token -1"),
        (lambda p, drafts: float(drafts[0]), "which is not a token id"),
        (lambda p, drafts: None, "returns None, which is not a token id"),
        (lambda p, drafts: drafts[:2], "which is not a token id"),
        (lambda p, drafts: (int(drafts[0]), 3), "accepted draft 3; drafts are 0 to 2, or -1"),
        (lambda p, drafts: (int((drafts[0] + 1) % p.size), 0), "says that it accepted draft 0, token"),
    ],
)
def test_what_is_no_token_is_a_finding(answer: Any, message: str) -> None:
    audit = otspec.audit(lambda p, q, drafts, rng: answer(p, drafts))
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    assert message in audit.findings[0].message
    assert audit.worst is not None
    assert audit.worst.drafts is not None


def test_plans_can_be_sampled_too() -> None:
    rng = np.random.default_rng(0)
    logits = [tuple(rng.normal(size=(2, 30))) for _ in range(2)]
    audit = otspec.audit("interval", n=3, logits=logits, method="sampled", resolution=COARSE)
    assert audit.verdict is AuditVerdict.LOSSLESS
    assert audit.outcome.draws > 0
    # 27 000 tuples are too many to be listed.
    assert otspec.audit("interval", n=3, logits=logits, resolution=COARSE).outcome.method == "sampled"


def test_the_result_is_plain_data() -> None:
    audit = otspec.audit(rules.as_law(rules.medusa_nucleus), "top_k")
    data = audit.as_dict()
    assert data["verdict"] == "not lossless"
    assert data["tv"] == audit.tv
    assert data["worst"]["p"] == audit.worst.p if audit.worst else False
    assert len(data["instances"]) == len(audit.instances)


@dataclass
class OneBuffer:
    """Lossless rules that hand out the same array, or list, at every call."""

    def law(self, p: Floats, q: Floats, drafts: Ints) -> Floats:
        self.buffer = getattr(self, "buffer", np.zeros(p.size))
        self.buffer[:] = rules.as_law(rules.single)(p, q, drafts)
        return self.buffer

    def token(self, p: Floats, q: Floats, drafts: Ints, rng: np.random.Generator) -> Ints:
        self.last = getattr(self, "last", np.array(0))
        self.last[()] = rules.as_sampler(rules.single)(p, q, drafts, rng)
        return self.last

    def chain(self, target: Floats, draft: Floats, paths: Ints, rng: np.random.Generator) -> list[int]:
        self.text = getattr(self, "text", [0])
        self.text[0] = rules.draw(target[0, 0], rng.random())
        return self.text


def test_a_rule_may_hand_out_one_buffer_again_and_again() -> None:
    pairs = [([0.3, 0.2, 0.5], [0.1, 0.8, 0.1])]
    for method in ("exact", "sampled"):
        audit = otspec.audit(OneBuffer().law, n=1, instances=pairs, method=method, resolution=COARSE)
        assert audit.verdict is AuditVerdict.LOSSLESS
    assert otspec.audit(OneBuffer().token, n=1, instances=pairs, resolution=COARSE).verdict is AuditVerdict.LOSSLESS
    model = otspec.paths.synthetic("tiny", 2, 0)
    audit = otspec.audit_paths(OneBuffer().chain, 1, 2, models=[model], resolution=COARSE)
    assert audit.verdict is AuditVerdict.LOSSLESS


def test_a_law_may_be_a_tuple() -> None:
    pairs = [([0.3, 0.7], [0.5, 0.5])]  # two numbers, not a law and its acceptance
    assert otspec.audit(lambda p, q, drafts: tuple(p), instances=pairs).verdict is AuditVerdict.LOSSLESS


def three_tokens_at_most(error: Exception) -> Any:
    """A rule of form plan that raises where there are more tokens."""

    def factory(problem: otspec.Problem) -> otspec.Plan | None:
        if problem.vocab > 3:
            raise error
        return otspec.solve(problem).plan

    return factory


@pytest.mark.parametrize("method", ["exact", "sampled"])
def test_what_is_said_of_a_rule_that_refuses_instances_is_not_said_of_all(method: str) -> None:
    rule = three_tokens_at_most(ProblemError("three tokens at most"))
    audit = otspec.audit(rule, n=2, method=method, resolution=COARSE)
    assert audit.verdict is AuditVerdict.INCONCLUSIVE
    tried, cases = len(audit.instances), audit.outcome.cases
    assert 0 < tried < cases
    assert f"on {tried} of {cases} instances" in audit.reason
    assert f"refused on {cases - tried} of {cases} instances: three tokens at most (on '" in audit.findings[0].message
    assert {one.vocab for one in audit.instances} <= {2, 3}


@pytest.mark.parametrize("method", ["exact", "sampled"])
def test_a_rule_that_gives_no_plan_but_raises_is_not_lossless(method: str) -> None:
    audit = otspec.audit(three_tokens_at_most(IndexError("token 3")), n=2, method=method)
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    assert "gives no plan, but raises IndexError: token 3" in audit.findings[0].message
    assert audit.findings[0].bias
    assert audit.worst is not None
    assert len(audit.worst.p) > 3


@dataclass(frozen=True)
class Raising(KSeq):
    """A solver with a mistake: an error that is not meant as a refusal."""

    def __call__(self, problem: otspec.Problem) -> Any:
        raise ZeroDivisionError


def test_a_solver_that_raises_is_not_lossless() -> None:
    audit = otspec.audit(Raising(), n=2)
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    assert "raises ZeroDivisionError" in audit.reason


class SlowClock:
    """A clock that a rule moves: each call takes a second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("otspec.auditing.rules.subject.time.monotonic", lambda: self.now)

    def law(self, p: Floats, q: Floats, drafts: Ints) -> Floats:
        self.now += 1
        return p

    def token(self, p: Floats, q: Floats, drafts: Ints, rng: np.random.Generator) -> int:
        self.now += 1
        return rules.draw(p, rng.random())


def test_the_audit_stops_when_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SlowClock(monkeypatch)
    exact = otspec.audit(clock.law, n=2, max_seconds=100.5)
    assert clock.now == 101
    assert exact.verdict is AuditVerdict.INCONCLUSIVE
    tried = len(exact.instances)
    assert f"the 100.5 s were up after {tried} of 58 instances: the output law is p on {tried}" in exact.reason
    assert f"every tuple of drafts of {tried} of 58 instances" in str(exact)

    clock.now = 0
    early = otspec.audit(clock.token, n=2, max_seconds=100.5)
    assert clock.now == 101
    assert early.verdict is AuditVerdict.INCONCLUSIVE
    assert early.reason == "the 100.5 s were up before the first look, which takes 1,400 draws; allow for more seconds"

    clock.now = 0
    later = otspec.audit(clock.token, n=2, max_seconds=3000)
    assert later.verdict is AuditVerdict.INCONCLUSIVE
    assert 1400 <= later.outcome.draws <= 3000
    assert f"the 3000 s were up after {later.outcome.draws:,} draws: the output law is known to be" in later.reason


def test_a_bias_found_in_time_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SlowClock(monkeypatch)

    def first(p: Floats, q: Floats, drafts: Ints) -> Floats:
        clock.now += 1
        return np.eye(p.size)[drafts[0]]

    assert otspec.audit(first, n=2, max_seconds=100).verdict is AuditVerdict.NOT_LOSSLESS


@pytest.mark.parametrize("rule", ["naive", otspec.verify])
def test_progress_is_told(rule: Any) -> None:
    told: list[tuple[int, int]] = []
    otspec.audit(rule, n=2, resolution=COARSE, progress=lambda done, most: told.append((done, most)))
    assert told == sorted(told)
    assert len(told) > 3
    assert all(0 < done <= most for done, most in told)


torch_rules = pytest.mark.parametrize("uniforms", [False, True], ids=["generator", "uniforms"])


def batched_rrs(p: Any, q: Any, drafts: Any, coins: Any, bug: str = "") -> Any:
    """Recursive rejection of all rows at once; coins is a generator, or uniforms of shape (B, n + 1)."""
    import torch

    rows, n = drafts.shape
    if isinstance(coins, torch.Generator):
        coins = torch.rand(rows, n + 1, generator=coins, dtype=p.dtype)
    if bug == "one coin for all rows":
        coins = coins[:1].expand(rows, -1)
    if bug == "target of the first row":
        p = p[:1].expand_as(p)
    if bug == "writes to p":
        p.mul_(1.0 + 1e-9)
    left, token = p, torch.full((rows,), -1)
    for k in range(n):
        x = drafts[:, k : k + 1]
        passes = coins[:, k] * q.gather(1, x)[:, 0] < left.gather(1, x)[:, 0]
        token = torch.where(passes & (token < 0), x[:, 0], token)
        rest = (left - q).clamp(min=0)
        total = rest.sum(1, keepdim=True)
        left = torch.where(total > 0, rest / total, left)
    cumulative = left.cumsum(1)
    last = (cumulative <= coins[:, n:] * cumulative[:, -1:]).sum(1)
    return torch.where(token < 0, last, token)


@torch_rules
def test_batched_rules_pass(uniforms: bool) -> None:
    pytest.importorskip("torch")
    form = "torch_uniforms" if uniforms else "torch"
    audit = otspec.audit(batched_rrs, form=form, uniforms=4, resolution=COARSE)
    assert audit.verdict is AuditVerdict.LOSSLESS
    assert not audit.findings


@torch_rules
@pytest.mark.parametrize("bug", ["one coin for all rows", "target of the first row"])
def test_bugs_of_batches_are_flagged(uniforms: bool, bug: str) -> None:
    pytest.importorskip("torch")
    form = "torch_uniforms" if uniforms else "torch"
    audit = otspec.audit(partial(batched_rrs, bug=bug), form=form, uniforms=4)
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    assert audit.outcome.draws < 20_000


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda p, q, drafts, generator: p, "returns tokens of shape"),
        (lambda p, q, drafts, generator: drafts[:, 0] * 0 + p.shape[1], "token ids run from 0 to"),
        (lambda p, q, drafts, generator: drafts @ p, "raises RuntimeError"),
    ],
)
def test_what_a_batched_rule_gets_wrong_is_a_finding(rule: Any, message: str) -> None:
    pytest.importorskip("torch")
    audit = otspec.audit(rule)
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    assert message in audit.findings[0].message


def test_a_batched_rule_that_writes_to_its_arguments_is_told() -> None:
    pytest.importorskip("torch")
    audit = otspec.audit(partial(batched_rrs, bug="writes to p"), form="torch", resolution=COARSE)
    assert any("writes to its argument p" in one.message for one in audit.findings)

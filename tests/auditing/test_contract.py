"""The contract of audits of rules, over all forms: what is lossless passes, what is not is flagged."""

import pickle
from typing import Any

import numpy as np
import pytest

import otspec
from otspec import AuditVerdict
from tests.auditing import decoder_rules as rules
from tests.auditing.forms import BATCHES, FORMS, MODELS, Form
from tests.oracles import Floats, Ints

COARSE = 0.25
"""A resolution that takes a few thousand draws."""

every_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
enumerable = pytest.mark.parametrize(
    "form", [form for form in FORMS if len(form.methods) > 1], ids=lambda form: form.name
)


@pytest.fixture(autouse=True)
def packages(request: pytest.FixtureRequest) -> None:
    """Forms of tensors need torch."""
    form = getattr(request.node, "callspec", None) and request.node.callspec.params.get("form")
    if form and form.name in BATCHES:
        pytest.importorskip("torch")


@every_form
def test_a_lossless_rule_passes(form: Form) -> None:
    for method in form.methods:
        audit = form.run(form.lossless, method=method, resolution=COARSE)
        assert audit.verdict is AuditVerdict.LOSSLESS
        assert (audit.outcome.method, audit.form, audit.findings) == (method, form.name, ())
        assert len(audit.instances) == 2
        if method == "exact":
            assert max(one.tv for one in audit.instances) <= 1e-12
            assert all(one.optimum is not None and one.excess <= 1e-7 for one in audit.instances)  # as HiGHS keeps it
        else:
            assert all(one.tv_interval[1] <= COARSE for one in audit.instances)
            assert [(test.name, test.rejected) for test in audit.outcome.tests] == [("law", False), ("pairs", False)]
            assert "law test     not rejected that each output has law p" in str(audit)


@every_form
def test_a_biased_rule_is_flagged_early_and_always_in_the_same_way(form: Form) -> None:
    for method in form.methods:
        audit: Any = form.run(form.biased, method=method, seed=3)
        assert audit.verdict is AuditVerdict.NOT_LOSSLESS
        assert audit.worst is not None
        assert max(0.03, audit.tv_interval[0]) <= audit.tv <= audit.tv_interval[1]
        if method == "sampled":
            assert audit.outcome.draws < 20_000
            assert audit.outcome.tests[0].rejected
            assert "law test     REJECTED that each output has law p" in str(audit)
        assert form.run(form.biased, method=method, seed=3).as_dict() == audit.as_dict()
        assert str(pickle.loads(pickle.dumps(audit))) == str(audit)


@enumerable
def test_intervals_hold_the_exact_distance(form: Form) -> None:
    exact, drawn = (
        form.run(form.biased, method=method, alpha=1e-12, budget=10_000, seed=1) for method in ("exact", "sampled")
    )
    for true, seen in zip(exact.instances, drawn.instances, strict=True):
        assert seen.tv_interval[0] <= true.tv <= seen.tv_interval[1]
        assert abs(seen.membership - true.membership) <= seen.membership_error
        assert seen.optimum == true.optimum


@every_form
def test_a_rule_that_raises_is_not_lossless(form: Form) -> None:
    class Raising:
        """Of any form."""

        def __call__(self, *handed: Any) -> Any:
            raise ZeroDivisionError("by nothing")

        stop_law = verify = __call__

    for method in form.methods:
        audit = form.run(Raising(), method=method)
        assert (audit.verdict, audit.findings[0].bias) == (AuditVerdict.NOT_LOSSLESS, True)
        assert "raises ZeroDivisionError: by nothing" in audit.reason
        assert form.name in BATCHES or audit.worst is not None


@every_form
def test_time_that_is_up(form: Form) -> None:
    for method in form.methods:
        audit = form.run(form.lossless, method=method, max_seconds=1e-9)
        assert audit.verdict is AuditVerdict.INCONCLUSIVE
        assert all(said in audit.reason for said in ("the 1e-09 s were up", "allow for more seconds"))


@every_form
def test_a_budget_that_does_not_suffice_and_progress(form: Form) -> None:
    calls: list[tuple[int, int]] = []
    request: dict[str, Any] = {"method": "sampled", "budget": 1000, "resolution": 0.001}
    audit = form.run(form.lossless, progress=lambda *call: calls.append(call), **request)
    assert audit.verdict is AuditVerdict.INCONCLUSIVE
    assert "allow for a larger budget" in audit.reason
    assert 200 <= audit.outcome.draws <= 1000
    assert (calls, calls[-1]) == (sorted(calls), (audit.outcome.draws, 1000))


@every_form
def test_a_text_is_two_calls_and_a_rule_is_told_when_it_begins(form: Form) -> None:
    class Counting:
        """Of any form, and lossless."""

        starts = calls = 0

        def start(self, rng: np.random.Generator) -> None:
            assert self.calls == 2 * self.starts
            self.starts += 1

        def __call__(self, *handed: Any) -> Any:
            self.calls += 1
            return form.lossless(*handed)

        def verify(self, *handed: Any) -> Any:
            self.calls += 1
            return form.lossless.verify(*handed)

        def stop_law(self, *handed: Any) -> Any:
            return form.lossless.stop_law(*handed)

    if form.name == "plan":  # which is called once, for a plan
        return
    rule = Counting()
    audit = form.run(rule, method="sampled", resolution=0.3)
    assert (audit.verdict, rule.calls) == (AuditVerdict.LOSSLESS, 2 * rule.starts)
    assert form.name in BATCHES or rule.calls == audit.outcome.draws


# --- answers


def nan_where_nothing_is_left(p: Floats, q: Floats, drafts: Ints) -> Floats:
    """The usual division by the sum of the residual, which is 0 for p = q."""
    rest = np.maximum(p - q, 0)
    law: Floats = (1 - rules.ratio(p[drafts[0]], q[drafts[0]])) * rest / rest.sum()
    law[drafts[0]] += rules.ratio(p[drafts[0]], q[drafts[0]])
    return law


INVALID: list[tuple[Any, str]] = [
    (lambda p, q, drafts, rng: p.size, "token ids run from 0 to"),
    (lambda p, q, drafts, rng: 10**30, "which is not a token id"),
    (lambda p, q, drafts, rng: float(drafts[0]), "which is not a token id"),
    (lambda p, q, drafts, rng: drafts[:2], "which is not a token id"),
    (lambda p, q, drafts, rng: (int(drafts[0]), 3), "accepted draft 3; drafts are 0 to 2, or -1"),
    (lambda p, q, drafts, rng: (int((drafts[0] + 1) % p.size), 0), "reports that it accepted draft 0, token"),
    (nan_where_nothing_is_left, "returns a law that holds nan"),
    (lambda p, q, drafts: p[:-1], "returns an array of shape (2,), not a law of shape (3,)"),
    (lambda p, q, drafts: p / 2, "returns a law that sums to 0.5"),
    (lambda p, q, drafts: 2 * p - np.roll(p, 1), "below 0"),
    (lambda p, q, drafts: "p", "returns 'p', which is not a law"),
    (lambda p, q, drafts: (p, 7), "reports that it accepts with probability 7, which is not in [0, 1]"),
    (lambda p, q, drafts: (p, "often"), "reports that it accepts with probability 'often', which is not a number"),
    (lambda p, q, drafts: (p, 1.0), "reports that it accepts with probability 1, and puts out a draft with"),
    (lambda p, q, drafts, generator: p, "returns tokens of shape"),
    (lambda p, q, drafts, generator: [[0], [0, 0]], "returns tokens of shape () and type object"),
    (lambda p, q, drafts, generator: drafts[:, 0] * 0 + p.shape[1], "token ids run from 0 to"),
]
OF_DRAFTERS: list[tuple[Any, str]] = [
    (lambda q, n, rng: [0], "drafts are 3 token ids"),
    (lambda q, n, rng: [[0], [0, 1]], "drafts are 3 token ids"),
    (lambda q, n, rng: [0, 1, q.size], "token ids run from 0 to"),
    (lambda q, n, rng: q[q.size], "the drafter raises IndexError"),
]
OF_PATHS: list[tuple[Any, str]] = [
    (lambda target, draft, paths, rng: [9], "puts out token 9; token ids run from 0 to 1"),
    (lambda target, draft, paths, rng: [0, 0, 0, 0], "puts out 4 tokens; a path of 2 gives 1 to 3"),
    (lambda target, draft, paths, rng: [1 - paths[0, 0], 0], "was not drafted"),
    (lambda target, draft, paths, rng: 3, "which is not a sequence of token ids"),
    (lambda target, draft, paths, rng: (np.zeros(2), 0), "which is not a sequence of token ids"),
    (lambda target, draft, paths: {(0,): 0.5}, "sums to 0.5"),
    (lambda target, draft, paths: [0.5, 0.5], "not a dictionary from tuples of tokens"),
    (lambda target, draft, paths: {(0,): "all"}, "which is not a number"),
    (lambda tree, rng: (99, 0), "accepts node 99 of a tree"),
    (lambda tree, rng: (0, 1, 0), "reports that it accepted 1 tokens, and node 0 has 0"),
    (lambda tree, rng: "no", "returns 'no', not (node, token)"),
    (lambda tree: np.zeros(3), "not a law of shape"),
    (lambda tree: np.full_like(tree.target, np.nan), "not finite"),
    (lambda tree: tree.target - 1.0, "below 0"),
]


@pytest.mark.parametrize(("answers", "message"), [*INVALID, *OF_DRAFTERS, *OF_PATHS])
def test_an_answer_that_is_none_is_a_finding(answers: Any, message: str) -> None:
    case = (answers, message)
    audit: otspec.Audit
    if case in OF_PATHS:
        audit = otspec.audit_paths(answers, 1, 2, models=MODELS)
    elif case in OF_DRAFTERS:
        audit = otspec.audit(rules.as_sampler(rules.naive), drafter=answers)
    else:
        if audit_of_tensors := "generator" in answers.__code__.co_varnames:
            pytest.importorskip("torch")
        audit = otspec.audit(answers)
    assert audit.verdict is AuditVerdict.NOT_LOSSLESS
    assert message in audit.findings[0].message
    assert "off p by" in audit.reason or audit.findings[0].message in audit.reason
    assert audit.findings[0].bias
    if case in OF_PATHS or (case in INVALID and not audit_of_tensors):
        assert getattr(audit.worst, "drafts", None) is not None


def test_the_first_answer_that_is_none_is_the_one_that_is_reported() -> None:
    """Answers are checked in batches, and a rule may raise after it."""
    calls = iter(range(100))

    def rule(p: Floats, q: Floats, drafts: Ints, rng: np.random.Generator) -> Any:
        number = next(calls)
        return {5: 77, 6: "no"}.get(number, 0) if number < 7 else 1 // 0

    audit = otspec.audit(rule, n=1, instances=[([0.5, 0.5], [0.5, 0.5])])
    assert "returns token 77" in audit.findings[0].message


def test_a_rule_may_hand_out_one_buffer_again_and_again() -> None:
    pairs, buffer = [([0.3, 0.2, 0.5], [0.1, 0.8, 0.1])], np.zeros(3)

    def law(p: Floats, q: Floats, drafts: Ints) -> Floats:
        buffer[:] = rules.as_law(rules.single)(p, q, drafts)
        return buffer

    for method in ("exact", "sampled"):
        audit = otspec.audit(law, n=1, instances=pairs, method=method, resolution=COARSE)
        assert audit.verdict is AuditVerdict.LOSSLESS

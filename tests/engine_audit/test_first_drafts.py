"""Acceptance beside the optimum: its e-values, alpha* of first drafts, and engines at it and above it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otspec.certificate import optimum as by_flow
from otspec.engine_audit import Acceptance, Drafting, EngineVerdict, FunctionLaws, ModelLaws, Sampling, audit_engine
from otspec.engine_audit.engine import Text
from otspec.engine_audit.first_drafts import LENGTHS, STAKES, Tally, proof, together
from otspec.engine_audit.judge import Cell
from otspec.engine_audit.optimum import Optima, optimum
from otspec.engine_audit.report import EngineAudit
from otspec.errors import ProblemError
from otspec.problem import Problem
from otspec.schemes import IID, WithoutReplacement
from tests.each import each
from tests.engine_audit.engines import LAWS, QUICK, Faulty, markov
from tests.engine_audit.speculative import DRAFT, DRAFT_LAWS, Rule, Speculative, always, draft, lenient, lossless

CELL = Cell(0, "", Sampling())
SAMPLED = Drafting(Sampling())
SHORT: dict[str, Any] = {**QUICK, "texts": 600, "length": 2}

KINDS: dict[str, dict[str, Any]] = {
    "as vLLM, which drafts for the last token, several at once": {"deep": 3},
    "as llama.cpp, which does not": {"at_last": False, "says_positions": False, "deep": 3},
    "as our own, from the prompt on": {"after": 0, "at_last": False, "deep": 3},
    "from the prompt on, and for the last token": {"after": 0},
    "the likeliest tokens": {"likeliest": True},
    "one that does not say from where on": {"says_after": False},
    "the same, from the prompt on": {"says_after": False, "after": 0, "at_last": False},
}


def audited(engine: Speculative, seed: int = 0, **options: Any) -> EngineAudit:
    ends = engine._ends
    laws, draft_laws = (FunctionLaws(law, tuple(ends)) for law in (markov, draft))
    asked: dict[str, Any] = {**SHORT, "seed": seed, **options}
    return audit_engine(engine, prompts=[""], laws=laws, draft_laws=draft_laws, **asked)


def told(audit: EngineAudit) -> Any:
    assert audit.outcome.first_drafts is not None
    return audit.outcome.first_drafts


def evidence_of(audit: EngineAudit) -> float:
    (test,) = [test for test in audit.outcome.tests if test.name == "optimum"]
    return test.evidence


def overlap(before: tuple[int, ...]) -> float:
    return sum(map(min, markov(before), draft(before)))


def test_the_mean_of_the_evidence_is_one_at_the_optimum() -> None:
    """Over the first tokens and coins of two texts of one cell and one of another, by every stake."""
    means, both = np.zeros(STAKES.size), 0.0
    for tokens, hits in product(product(range(3), repeat=3), product((0, 1), repeat=3)):
        chances = [overlap((token,)) for token in tokens]
        weight = math.prod(markov(())[token] for token in tokens)
        weight *= math.prod(a if hit else 1 - a for a, hit in zip(chances, hits, strict=True))
        optima = np.array([[0.9] * 3, chances])
        tallies = [Tally(), Tally()]
        tallies[0].add(Acceptance(2, 2, hits[0] + hits[1], (hits[0] + hits[1],)), optima[:, :2])
        tallies[1].add(Acceptance(1, 1, hits[2], (hits[2],)), optima[:, 2:])
        means += weight * np.exp(Tally.of(tallies).logs()[1])
        both += weight * math.exp(together(tallies)[1])
    assert means == pytest.approx(1.0, abs=1e-12)
    assert both == pytest.approx(1.0, abs=1e-12)


@each(place=[0, 1])
def test_the_mean_of_the_least_is_at_most_one_wherever_texts_are_drafted_for(place: int) -> None:
    mean = 0.0
    for token, hit in product(range(3), (0, 1)):
        optima = np.array([[overlap(())], [overlap((token,))]])
        chance = optima[place, 0]
        tally = Tally()
        tally.add(Acceptance(1, 1, hit, (hit,)), optima)
        mean += markov(())[token] * (chance if hit else 1 - chance) * math.exp(together([tally]).min())
    assert 0.5 < mean <= 1 + 1e-12


@each(hits=[(160, *[100] * 15), (112,) * 16])
def test_one_that_is_far_off_and_all_that_are_a_little_are_found(hits: tuple[int, ...]) -> None:
    tallies = [Tally() for _ in hits]
    for tally, accepted in zip(tallies, hits, strict=True):
        tally.add(Acceptance(200, 200, accepted, (accepted,)), np.full((2, 200), 0.5))
    assert together(tallies).min() > math.log(3000)
    for tally in tallies:
        tally.accepted = 100
    assert together(tallies).max() < 0


def test_a_tally_knows_who_can_be_drafted_for() -> None:
    tally = Tally()
    tally.add(Acceptance(5, 15, 4, (3, 1)), np.array([[0.5, 0.5], [0.25, np.nan]]))
    tally.add(Acceptance(9, 2, 1), np.array([[0.5], [0.75]]))  # without positions all drafts are first ones
    assert (tally.texts, tally.drafted, tally.accepted) == (3, 7, 4)
    assert tally.open.tolist() == [3, 2]
    assert tally.optimum.tolist() == [1.5, 1.0]


def test_so_many_would_be_proof_and_one_less_would_not() -> None:
    tally, threshold = Tally(), math.log(3000)
    tally.add(Acceptance(0, 0, 0, (0,)), np.full((2, 200), 0.6))
    least = proof(tally, 1, threshold)
    assert least is not None
    assert 120 < least < 160
    for accepted, enough in ((least, True), (least - 1, False)):
        evidence = np.logaddexp.reduce(tally.logs(accepted)[1]) - math.log(2 * STAKES.size)
        assert (evidence >= threshold) == enough
    few = Tally()
    few.add(Acceptance(0, 0, 0, (0,)), np.full((2, 5), 0.6))
    assert proof(few, 1, threshold) is None


def test_the_optimum_of_one_draft_is_what_both_laws_have_in_common() -> None:
    optima = Optima(LAWS, DRAFT_LAWS, 1e-6)
    found = optima.after(CELL, SAMPLED, [2, 0, 2])
    assert found == pytest.approx(np.array([[overlap(())] * 3, [overlap((token,)) for token in (2, 0, 2)]]))
    again = optima.after(CELL, SAMPLED, [1, 2])
    assert again[1] == pytest.approx([overlap((1,)), overlap((2,))])


def test_nothing_follows_a_token_that_ends_the_text() -> None:
    found = Optima(FunctionLaws(markov, (2,)), DRAFT_LAWS, 1e-6).after(CELL, SAMPLED, [2, 1])
    assert np.isnan(found).tolist() == [[False, False], [True, False]]


def test_the_optimum_of_the_likeliest_draft_is_its_chance() -> None:
    target, likely, tied = (np.log(law) for law in (markov(()), [0.1, 0.5, 0.4], [0.45, 0.1, 0.45]))
    likeliest = Drafting(Sampling(0.0))
    assert optimum(target, likely, CELL, likeliest, 1e-6) == pytest.approx(0.3)
    assert optimum(target, tied, CELL, likeliest, 1e-6) == pytest.approx(0.6)  # either may be drafted


@each(scheme=["iid", "without_replacement"])
def test_the_optimum_of_two_drafts_is_that_of_the_transport_program(scheme: str) -> None:
    p, q = np.array(markov((1,))), np.array(DRAFT[1])
    drafts = IID(q, 2) if scheme == "iid" else WithoutReplacement(q, 2)
    found = optimum(np.log(p), np.log(q), CELL, Drafting(Sampling(), 2, scheme), 1e-6)
    assert found == pytest.approx(by_flow(Problem(p, drafts)).bound)
    assert found > overlap((1,)) + 0.01


def test_models_of_different_sizes_have_the_tokens_of_both() -> None:
    with np.errstate(divide="ignore"):
        found = optimum(np.log([0.5, 0.5, 0.0]), np.log([0.25, 0.25, 0.25, 0.25]), CELL, SAMPLED, 1e-6)
    assert found == pytest.approx(0.5)


@each(cut=["target", "draft"])
def test_where_rounding_decides_which_tokens_there_are_all_drafts_may_be_accepted(cut: str) -> None:
    tied, clear = np.log([0.5, 0.25, 0.25]), np.log([0.5, 0.3, 0.2])
    top = Cell(0, "", Sampling(top_k=2))
    target, drafted = (tied, clear) if cut == "target" else (clear, tied)
    assert optimum(target, drafted, top, Drafting(top.sampling), 1e-3) == 1.0
    assert optimum(clear, clear + 0.1, top, Drafting(top.sampling), 1e-3) == pytest.approx(1.0)
    assert optimum(clear, clear[::-1], top, Drafting(top.sampling), 1e-3) < 0.5


@each(kind=list(KINDS))
def test_an_engine_at_the_optimum(kind: str) -> None:
    """Its drafts are accepted as often as they can be, and evidence against it does not grow."""
    shares = []
    for seed in range(2):
        audit = audited(Speculative(**KINDS[kind]), seed, all_texts=True, alpha=0.01)
        assert audit.verdict is not EngineVerdict.NOT_LOSSLESS
        assert evidence_of(audit) < math.log(300)
        assert not audit.outcome.findings
        found = told(audit)
        assert found.texts == found.drafted == 300
        low, high = found.interval
        assert low <= found.accepted / found.texts <= high
        shares.append((found.accepted - found.optimum) / found.texts)
    error = 0.5 / math.sqrt(2 * 300)
    assert np.mean(shares) < 6 * error
    if "does not say" not in kind and "the same" not in kind:  # or else the larger of two optima is told
        assert np.mean(shares) > -6 * error


@each(case=[*((kind, lenient) for kind in KINDS), (next(iter(KINDS)), always)])
def test_an_engine_above_the_optimum(case: tuple[str, Rule]) -> None:
    kind, rule = case
    audit = audited(Speculative(rule, **KINDS[kind]), all_texts=True, texts=1600)
    found = told(audit)
    assert audit.verdict is EngineVerdict.NOT_LOSSLESS
    assert evidence_of(audit) > math.log(3000)
    assert found.proof is not None
    assert found.proof <= found.accepted
    assert found.interval[0] > found.optimum / found.texts


def test_where_texts_were_drafted_for_is_recognized() -> None:
    """By the least length that has drafts, by how many there are of texts that end, or by the engine's word."""
    engines = {
        "last token": Speculative(after=0, says_after=False, ends=(2,)),
        "prompt": Speculative(after=0, at_last=False, says_after=False, ends=(2,)),
        "token 1": Speculative(says_after=False, ends=(2,)),
        "token 1, said": Speculative(ends=(2,)),
    }
    places = {name: told(audited(engine)).after for name, engine in engines.items()}
    assert places == {"last token": (0,), "prompt": (0,), "token 1": (0, 1), "token 1, said": (1,)}


def right_at_first(before: tuple[int, ...]) -> Sequence[float]:
    """The target's law after the prompt, and far from it after a token."""
    return markov(before)[::-1] if before else markov(before)


@each(after=[0, 1])
def test_where_that_is_not_known_the_larger_optimum_counts(after: int) -> None:
    engine = Speculative(after=after, at_last=after == 1, says_after=False, by=right_at_first)
    audit = audit_engine(engine, prompts=[""], laws=LAWS, draft_laws=FunctionLaws(right_at_first), **SHORT)
    found = told(audit)
    assert audit.verdict is not EngineVerdict.NOT_LOSSLESS
    assert found.after == (0, 1)
    assert found.optimum == pytest.approx(found.texts)
    assert found.accepted == found.texts if after == 0 else found.accepted < 0.8 * found.texts
    assert found.proof is None


@each(at_last=[True, False])
def test_texts_are_as_short_as_they_can_be(at_last: bool) -> None:
    assert told(audited(Speculative(at_last=at_last))).length == (2 if at_last else 3)


@each(cut=[Sampling(0.7), Sampling(top_k=2)])
def test_samplings_have_optima_of_their_own(cut: Sampling) -> None:
    audits = [
        audit_engine(Speculative(rule), [cut, Sampling()], [""], laws=LAWS, draft_laws=DRAFT_LAWS, **SHORT)
        for rule in (lossless, always)
    ]
    fine, wrong = audits
    assert fine.verdict is not EngineVerdict.NOT_LOSSLESS
    assert wrong.verdict is EngineVerdict.NOT_LOSSLESS
    found = told(fine)
    assert abs(found.accepted - found.optimum) < 6 * math.sqrt(300) / 2
    assert f"drawn at {cut}; drawn at T = 1" in found.drafts


class Boasting(Speculative):
    """Tells that all drafts were accepted."""

    def acceptance(self) -> Acceptance | None:
        found = super().acceptance()
        return None if found is None else found._replace(accepted=found.drafted, per_position=(found.steps,))


def test_the_verdict_if_nothing_else_speaks_against_the_engine() -> None:
    audit = audited(Boasting())
    assert audit.verdict is EngineVerdict.NOT_LOSSLESS
    assert "texts accept a first draft, 1.000" in audit.reason
    assert "if drafts are drawn at T = 1 (evidence" in audit.reason
    assert told(audit).texts < 300  # it is sure before all are drawn
    assert told(audited(Boasting(), all_texts=True)).texts == 300


def test_the_report_and_json_have_the_figures() -> None:
    audit = audited(Speculative(), texts=2000)
    assert audit.verdict is EngineVerdict.NO_EVIDENCE
    found = told(audit)
    said = f"{found.accepted} of 1,000 texts accept a first draft, {found.accepted / 1000:.3f}"
    assert said in " ".join(audit.reason.split())
    text = " ".join(str(audit).split())
    assert f"first drafts after one token, 2 tokens at most: {said}" in text
    assert f"{found.proof} of them would be proof" in text
    assert "optimum test not rejected that no more drafts are accepted" in text
    written = json.loads(audit.to_json())["first_drafts"]
    assert written["accepted"] == found.accepted
    assert written["after"] == [1]
    assert written["optimum"] == pytest.approx(found.optimum)


def test_counts_of_the_other_texts_are_told_apart() -> None:
    engine = Speculative()
    audit = audited(engine, length=4)
    whole, short = engine.acceptance(), told(audit)
    assert audit.outcome.acceptance is not None
    assert whole is not None
    assert whole.since(audit.outcome.acceptance).steps >= short.drafted


class Silent(Speculative):
    counts = False


class Unsaid(Speculative):
    def drafting(self, sampling: Sampling) -> None:
        """As one whose drafts are looked up."""


class Twice(Speculative):
    """Counts the drafts of somebody else's requests, too."""

    def acceptance(self) -> Acceptance | None:
        found = super().acceptance()
        return None if found is None else found._replace(steps=2 * found.steps)


class Idle(Speculative):
    """Waits for longer texts."""

    def texts(self, prompt: str, count: int, length: int, *rest: Any, **more: Any) -> list[Text]:
        self._after_tokens = length if length <= LENGTHS[-1] else 1
        return super().texts(prompt, count, length, *rest, **more)


class Mistaken(Speculative):
    """Drafts from the prompt on, and says that it does not."""

    def drafting(self, sampling: Sampling) -> Drafting:
        return Drafting(sampling, after=1)


UNFIT = "the counts do not fit texts that are drafted for once"
LEFT_OUT: dict[str, tuple[Faulty, str]] = {
    "does not say": (Faulty(), "function does not say how its drafts are drawn from a draft model's law"),
    "has no draft model": (Unsaid(), "function does not say how its drafts are drawn from a draft model's law"),
    "does not count": (Silent(), "function does not count its drafts"),
    "does not draft": (Idle(), "function does not draft in texts of 3 tokens"),
    "has other users": (Twice(), f"{UNFIT}: 64 drafts of 32 texts of 2 tokens"),
    "is not as it says": (Mistaken(after=0), f"{UNFIT}: 32 drafts of 32 texts of 1 tokens"),
    "tells no positions": (Speculative(deep=2, says_positions=False), f"{UNFIT}: 64 drafts of 32 texts of 2 tokens"),
}


@each(why=list(LEFT_OUT))
def test_what_cannot_be_held_against_the_optimum_is_said(why: str) -> None:
    engine, sentence = LEFT_OUT[why]
    audit = audit_engine(engine, prompts=[""], laws=LAWS, draft_laws=DRAFT_LAWS, **{**SHORT, "texts": 200, "length": 4})
    (finding,) = audit.outcome.findings
    assert finding.message == f"acceptance is not held against the optimum: {sentence}"
    assert not finding.bias
    assert audit.outcome.first_drafts is None
    assert [test.name for test in audit.outcome.tests] == ["law", "independence"]
    assert audit.verdict is not EngineVerdict.NOT_LOSSLESS


def test_tests_share_alpha() -> None:
    """Three where there are three; an engine that says nothing of its drafts has two."""
    audits = [
        audit_engine(engine, prompts=[""], laws=LAWS, draft_laws=draft_laws, **SHORT)
        for engine, draft_laws in ((Speculative(), DRAFT_LAWS), (Faulty(), DRAFT_LAWS), (Speculative(), None))
    ]
    thresholds = [{round(math.exp(test.threshold)) for test in audit.outcome.tests} for audit in audits]
    assert thresholds == [{3000}, {2000}, {2000}]


def test_what_is_sure_without_is_not_asked_for() -> None:
    engine = Speculative(always)
    audit = audited(engine, texts=3000)
    assert audit.verdict is EngineVerdict.NOT_LOSSLESS
    assert audit.outcome.first_drafts is None


def test_the_law_of_the_drafts_is_of_no_use_alone() -> None:
    with pytest.raises(ProblemError, match="the law of the drafts is given without that of the target"):
        audit_engine(Speculative(), prompts=[""], draft_laws=DRAFT_LAWS, **SHORT)


class Reader(ModelLaws):
    """Reads a prompt in its own way; the laws are never asked for."""

    def __init__(self, *tokens: int) -> None:
        self._tokens, self.ends = list(tokens), frozenset()

    def head(self, prompt: str) -> list[int]:
        return self._tokens

    def along(self, prompt: str, texts: Any) -> Any:
        return LAWS.along(prompt, texts)


def test_a_draft_model_with_other_tokens() -> None:
    audit = audit_engine(Speculative(), prompts=["x"], laws=Reader(1, 2), draft_laws=Reader(3), **SHORT)
    (finding,) = audit.outcome.findings
    assert "the draft model reads 'x' as other tokens than the target" in finding.message
    same = audit_engine(Speculative(), prompts=["x"], laws=Reader(1, 2), draft_laws=Reader(1, 2), **SHORT)
    assert same.outcome.first_drafts is not None


class Interrupted(Speculative):
    """Is interrupted at its second request of two tokens."""

    def texts(self, prompt: str, count: int, length: int, *rest: Any, **more: Any) -> list[Text]:
        if self.requests == 16:
            raise KeyboardInterrupt
        return super().texts(prompt, count, length, *rest, **more)


def test_an_audit_goes_on_with_the_counts_that_it_has(tmp_path: Path) -> None:
    store, asked = tmp_path / "texts.jsonl", {**SHORT, "length": 3}
    given: dict[str, Any] = {"prompts": [""], "laws": LAWS, "draft_laws": DRAFT_LAWS}
    interrupted, again, whole = Interrupted(), Speculative(), Speculative()
    with pytest.raises(KeyboardInterrupt):
        audit_engine(interrupted, store=store, **given, **asked)
    assert '"told"' in store.read_text()
    resumed = audit_engine(again, store=store, **given, **asked)
    at_once = audit_engine(whole, **given, **asked)
    assert again.requests == whole.requests - 16
    assert resumed.outcome.first_drafts == at_once.outcome.first_drafts
    assert resumed.outcome.tests == at_once.outcome.tests

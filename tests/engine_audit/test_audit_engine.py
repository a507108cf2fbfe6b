"""Engines of a known law, and what an audit says of them and of their faults."""

import json
import math
from collections.abc import Callable

import numpy as np
import pytest

from otspec.engine_audit import EngineVerdict, FunctionLaws, Laws, Sampling, Text, audit_engine
from tests.each import each
from tests.engine_audit.engines import END, LAWS, MARKOV, QUICK, Faulty, LawEngine, Telling, biased_at, markov

BOTH = {"exact law": LAWS, "two samples": None}


@each(laws=list(BOTH))
def test_a_lossless_engine(laws: str) -> None:
    audit = audit_engine(Telling(), [Sampling(), Sampling(0.8, top_k=2)], ["", "a"], laws=BOTH[laws], **QUICK)
    assert audit.verdict is EngineVerdict.NO_EVIDENCE
    control = audit.outcome.control
    assert control.caught is not None
    assert f"was caught at {control.caught:,}" in audit.reason
    assert audit.outcome.texts == audit.outcome.plain_texts == 3000
    assert not audit.outcome.findings
    assert "15 of 30 drafts in 10 steps; by position 0.800, 0.500, 0.200" in str(audit)


@each(laws=list(BOTH), position=[1, 2, 3])
def test_a_bias_and_where_it_is(laws: str, position: int) -> None:
    audit = audit_engine(Faulty(drafted=biased_at(position)), prompts=["", "a"], laws=BOTH[laws], **QUICK)
    assert audit.verdict is EngineVerdict.NOT_LOSSLESS
    evidence = {place.position: place.evidence for place in audit.outcome.places}
    assert all(evidence[before] < math.log(100) for before in range(1, position))
    assert evidence[position] > math.log(100)
    assert ("nothing speaks against the first" in audit.reason) == (position > 1)
    worst = audit.outcome.worst
    assert worst is not None
    assert 0 < worst.lower <= 0.3 + 1e-9
    if laws == "exact law":  # by two samples, all that follows is off as well
        assert worst.position == position
        assert f"position {position} at T = 1 is off by at least" in audit.reason


def test_a_bias_under_one_sampling_only() -> None:
    """Engines forget truncations on the path of the drafts."""

    class Forgetful(LawEngine):
        def texts(
            self, prompt: str, count: int, length: int, sampling: Sampling, seed: int, *, drafts: bool
        ) -> list[Text]:
            cut = Sampling(sampling.temperature) if drafts else sampling
            return super().texts(prompt, count, length, cut, seed, drafts=drafts)

    samplings = [Sampling(), Sampling(top_k=2)]
    audit = audit_engine(Forgetful(markov, markov), samplings, ["a"], laws=LAWS, **QUICK)
    assert audit.verdict is EngineVerdict.NOT_LOSSLESS
    assert "at T = 1, top-k 2 is off" in audit.reason
    assert "evidence infinite" in audit.reason
    places = {(place.sampling, place.position): place.evidence for place in audit.outcome.places}
    assert places["T = 1", 2] < math.log(10)


def test_a_lossless_engine_is_hardly_ever_called_biased() -> None:
    """At alpha = 0.1 at most a tenth of them may be, in the long run."""
    for laws in BOTH.values():
        verdicts = [
            audit_engine(
                Faulty(), prompts=[""], laws=laws, texts=96, length=2, seed=seed, alpha=0.1, greedy_length=1
            ).verdict
            for seed in range(24)
        ]
        assert verdicts.count(EngineVerdict.NOT_LOSSLESS) <= 3


def repeat_the_first(texts: list[Text], sampling: Sampling) -> list[Text]:
    """One stream of noise for all requests of a batch."""
    return texts if sampling.greedy else [texts[0]] * len(texts)


def repeat_a_neighbour(texts: list[Text], sampling: Sampling) -> list[Text]:
    """Every text may use the noise of the one before it."""
    return [texts[row // 2 * 2] for row in range(len(texts))]


@each(laws=list(BOTH), change=[repeat_the_first, repeat_a_neighbour])
def test_noise_that_requests_share(laws: str, change: Callable[[list[Text], Sampling], list[Text]]) -> None:
    audit = audit_engine(Faulty(change), prompts=[""], laws=BOTH[laws], **{**QUICK, "batch": 32})
    assert audit.verdict is EngineVerdict.NOT_LOSSLESS
    (independence,) = [test for test in audit.outcome.tests if test.name == "independence"]
    assert independence.rejected
    assert "contradict that requests are independent" in audit.reason


def test_greedy_text_that_follows_the_draft() -> None:
    """At position 4 it takes the least likely token."""

    def wrong(texts: list[Text], sampling: Sampling) -> list[Text]:
        return [text._replace(tokens=(*text.tokens[:3], 2, *text.tokens[4:])) for text in texts]

    audit = audit_engine(Faulty(lambda t, s: wrong(t, s) if s.greedy else t), prompts=["x"], laws=LAWS, **QUICK)
    assert audit.verdict is EngineVerdict.NOT_LOSSLESS
    (found,) = audit.outcome.divergences
    assert (found.position, found.plain, found.drafted, found.cause) == (4, "0", "2", "rule")
    assert found.logit_plain == pytest.approx(math.log(0.6))
    assert found.logit_drafted == pytest.approx(math.log(0.1))
    assert "first at token 4 after 'x': 2 in place of 0" in audit.reason
    by_samples = audit_engine(Faulty(lambda t, s: wrong(t, s) if s.greedy else t), prompts=["x"], **QUICK)
    assert by_samples.verdict is EngineVerdict.NO_EVIDENCE  # it may be a near tie: a finding, no verdict
    assert "a near tie of the logits or the rule" in by_samples.outcome.findings[0].message


def test_a_near_tie_is_no_bias() -> None:
    def nearly(before: tuple[int, ...]) -> list[float]:
        return [0.4003, 0.3997, 0.2]

    def other(texts: list[Text], sampling: Sampling) -> list[Text]:
        return [text._replace(tokens=(1, *text.tokens[1:])) for text in texts] if sampling.greedy else texts

    engine = Faulty(other, drafted=nearly)
    engine._after[False] = nearly
    audit = audit_engine(engine, prompts=[""], laws=FunctionLaws(nearly), **QUICK)
    assert audit.verdict is EngineVerdict.NO_EVIDENCE
    assert [one.cause for one in audit.outcome.divergences] == ["near tie"]


class Coarse(FunctionLaws):
    """Laws of a model in bfloat16."""

    def __init__(self, law: Callable[[tuple[int, ...]], list[float]]) -> None:
        super().__init__(law)
        self.rounding = 2.0**-3


@each(coarse=(True, False))
def test_a_tie_is_as_near_as_the_arithmetic_rounds(coarse: bool) -> None:
    """Logits .05 apart, of a standard deviation of 1.3: a tie in bfloat16, and none in float32."""

    def nearly(before: tuple[int, ...]) -> list[float]:
        return [0.4, 0.4 * math.exp(-0.05), 0.2, 1 - 0.6 - 0.4 * math.exp(-0.05)]

    def other(texts: list[Text], sampling: Sampling) -> list[Text]:
        return [text._replace(tokens=(1, *text.tokens[1:])) for text in texts] if sampling.greedy else texts

    engine = Faulty(other, drafted=nearly)
    engine._after[False] = nearly
    audit = audit_engine(engine, prompts=[""], laws=(Coarse if coarse else FunctionLaws)(nearly), **QUICK)
    assert [one.cause for one in audit.outcome.divergences] == ["near tie" if coarse else "rule"]
    assert audit.verdict is (EngineVerdict.NO_EVIDENCE if coarse else EngineVerdict.NOT_LOSSLESS)


def longer(texts: list[Text], sampling: Sampling) -> list[Text]:
    return [text._replace(tokens=(*text.tokens, 0)) for text in texts[:1]] + texts[1:]


def past_the_end(texts: list[Text], sampling: Sampling) -> list[Text]:
    return [
        text._replace(tokens=(*text.tokens, 0)) if text.ended == "stop" and len(text.tokens) == 1 else text
        for text in texts
    ]


def cut_short(texts: list[Text], sampling: Sampling) -> list[Text]:
    return [text._replace(tokens=text.tokens[:1]) if text.ended == "length" else text for text in texts]


@each(change=[longer, past_the_end, cut_short])
def test_texts_that_end_where_they_should_not(change: Callable[[list[Text], Sampling], list[Text]]) -> None:
    said = {"longer": "longer than asked for", "past_the_end": "going on after", "cut_short": "cut short"}[
        change.__name__
    ]
    ends = () if change is longer else (END,)
    engine = Faulty(lambda t, s: t if s.greedy else change(t, s), ends=ends)
    audit = audit_engine(engine, prompts=["x"], laws=FunctionLaws(markov, ends), **QUICK)
    assert audit.verdict is EngineVerdict.NOT_LOSSLESS
    assert any(said in finding.message and finding.bias for finding in audit.outcome.findings)


@each(hidden=[False, True])
def test_texts_that_end_and_engines_that_leave_the_end_out(hidden: bool) -> None:
    def without_end(texts: list[Text], sampling: Sampling) -> list[Text]:
        return [text._replace(tokens=text.tokens[:-1]) if text.tokens[-1] == END else text for text in texts]

    engine = Faulty(without_end if hidden else lambda texts, sampling: texts, ends=(END,))
    audit = audit_engine(engine, prompts=[""], laws=FunctionLaws(markov, (END,)), **QUICK)
    assert audit.verdict is EngineVerdict.NO_EVIDENCE
    assert audit.outcome.places[-1].texts < 3000


@each(laws=list(BOTH))
def test_log_probabilities(laws: str) -> None:
    """Right ones, and ones that are 0 with drafts."""

    def certain(texts: list[Text], sampling: Sampling) -> list[Text]:
        return [text._replace(logprobs=(0.0,) * len(text.tokens)) for text in texts]

    right = audit_engine(Faulty(with_logprobs=True), prompts=[""], laws=BOTH[laws], **QUICK)
    assert not right.outcome.findings
    wrong = audit_engine(Faulty(certain, with_logprobs=True), prompts=[""], laws=BOTH[laws], **QUICK)
    assert "log-probabilities with drafts are wrong" in wrong.outcome.findings[0].message
    assert right.verdict is wrong.verdict is EngineVerdict.NO_EVIDENCE  # which is about the text


def test_log_probabilities_that_plain_text_has_wrong_too_are_not_judged() -> None:
    def shifted(before: tuple[int, ...]) -> np.ndarray:
        return np.array(MARKOV[0])

    engine = Faulty(with_logprobs=True, drafted=shifted)
    engine._after[False] = shifted
    audit = audit_engine(engine, prompts=[""], laws=FunctionLaws(shifted), **QUICK)
    assert audit.verdict is EngineVerdict.NO_EVIDENCE
    assert "not judged" in audit.outcome.findings[0].message


@each(drafted=[markov, biased_at(2)])
def test_an_engine_that_tells_no_tokens(drafted: Callable[[tuple[int, ...]], list[float]]) -> None:
    audit = audit_engine(Faulty(in_characters=True, drafted=drafted), prompts=[""], **{**QUICK, "texts": 4000})
    assert audit.verdict.value == ("no evidence" if drafted is markov else "not lossless")


def test_plain_text_that_has_not_the_law_either() -> None:
    other = biased_at(2)
    audit = audit_engine(LawEngine(other, other), prompts=[""], laws=LAWS, **QUICK)
    assert audit.verdict is EngineVerdict.CANNOT_TELL
    assert "texts without drafts have not the exact law either" in audit.reason


@each(laws=list(BOTH))
def test_too_few_texts_to_catch_the_control(laws: str) -> None:
    audit = audit_engine(Faulty(), prompts=[""], laws=BOTH[laws], **{**QUICK, "texts": 64})
    assert audit.verdict is EngineVerdict.CANNOT_TELL
    assert "64 texts do not suffice to catch the control" in audit.reason


def test_only_greedy_text() -> None:
    audit = audit_engine(Faulty(), [Sampling(0.0)], prompts=[""], laws=LAWS)
    assert audit.verdict is EngineVerdict.CANNOT_TELL
    assert "only greedy text was asked for" in audit.reason
    assert audit.outcome.texts == 0


def test_all_texts_are_drawn_where_asked_for() -> None:
    short = audit_engine(Faulty(drafted=biased_at(2)), prompts=[""], laws=LAWS, **QUICK)
    whole = audit_engine(Faulty(drafted=biased_at(2)), prompts=[""], laws=LAWS, all_texts=True, **QUICK)
    assert short.outcome.texts < whole.outcome.texts == 3000
    assert short.outcome.worst is not None
    assert whole.outcome.worst is not None
    assert short.outcome.worst.lower < whole.outcome.worst.lower <= 0.3


def test_what_hangs_on_rounding_is_left_out() -> None:
    """Two tokens tie at the border of top-k: engines may keep either."""

    def tied(before: tuple[int, ...]) -> list[float]:
        return [0.6, 0.2, 0.2]

    def keeps_the_last(before: tuple[int, ...]) -> list[float]:
        return [0.6, 0.2 - 1e-9, 0.2 + 1e-9]

    samplings = [Sampling(), Sampling(top_k=2)]
    audit = audit_engine(LawEngine(tied, keeps_the_last), samplings, [""], laws=FunctionLaws(tied), **QUICK)
    assert audit.verdict is EngineVerdict.NO_EVIDENCE
    assert audit.outcome.undecided == 4500


def test_the_result_as_json() -> None:
    audit = audit_engine(Faulty(drafted=biased_at(2)), prompts=["x"], laws=LAWS, **QUICK)
    found = json.loads(audit.to_json())
    assert (found["engine"], found["verdict"], found["compared_with"]) == ("laws", "not lossless", "exact law")
    assert found["settings"]["control_bias"] == 0.1
    assert {"position", "lower", "upper", "evidence", "prompt", "sampling", "texts"} == set(found["places"][0])


@each(laws=list(BOTH))
def test_bounds_hold_the_truth_between_them(laws: str) -> None:
    """Over ten seeds: the first token is off by 0.3, and so are texts."""
    chosen: Laws | None = BOTH[laws]
    for seed in range(10):
        audit = audit_engine(
            Faulty(drafted=biased_at(1)), prompts=[""], laws=chosen, all_texts=True, seed=seed,
            texts=800, length=2, greedy_length=1,
        )  # fmt: skip
        first, second = audit.outcome.places
        assert 0 < first.lower <= 0.3 <= first.upper < 0.9
        assert second.upper >= 0.3
        assert second.lower <= (1e-9 if laws == "exact law" else 0.3)

"""Engines of a known law, and what an audit says of them and of their faults."""

import json
import math
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from otspec.auditing.engines import EngineVerdict, FunctionLaws, Laws, Sampling, Text, audit_engine
from otspec.auditing.engines.judge import _where
from otspec.auditing.engines.report import Place
from tests.auditing.engines.engines import END, LAWS, MARKOV, QUICK, Faulty, Telling, biased_at, markov
from tests.each import each

BOTH = {"exact law": LAWS, "two samples": None}


@each(laws=list(BOTH))
def test_a_lossless_engine(laws: str) -> None:
    audit = audit_engine(Telling(), [Sampling(), Sampling(0.8, top_k=2)], ["", "a"], laws=BOTH[laws], **QUICK)
    assert audit.verdict is EngineVerdict.NO_EVIDENCE
    control: Any = audit.outcome.control
    assert f"was caught at {control.caught:,}" in audit.reason
    assert audit.outcome.texts == audit.outcome.plain_texts == 3000
    assert not audit.outcome.findings
    assert "15 of 30 drafts in 10 steps; by position 0.800, 0.500, 0.200, since" in " ".join(str(audit).split())


@each(laws=list(BOTH), position=[1, 2, 3])
def test_a_bias_and_where_it_is(laws: str, position: int) -> None:
    audit = audit_engine(Faulty(drafted=biased_at(position)), prompts=["", "a"], laws=BOTH[laws], **QUICK)
    assert audit.verdict is EngineVerdict.NOT_LOSSLESS
    evidence = {place.position: place.evidence for place in audit.outcome.places}
    assert all(evidence[before] < math.log(100) for before in range(1, position))
    assert evidence[position] > math.log(100)
    assert ("nothing speaks against the first" in audit.reason) == (position > 1)
    worst: Any = audit.outcome.worst
    assert 0 < worst.lower <= 0.3 + 1e-9
    if laws == "exact law":  # by two samples, all that follows is off as well
        assert worst.position == position
        assert f"position {position} at T = 1 is off by at least" in audit.reason


def test_a_bias_of_a_size_unknown_is_not_said_to_be_nothing() -> None:
    judge, test = SimpleNamespace(texts=900), SimpleNamespace(hypothesis="all is well", evidence=30.0, threshold=8.0)
    told = _where(cast(Any, judge), cast(Any, test), [Place("T = 1", 1, 900, 30.0, 0.0, 0.2, "")])
    assert told.endswith("position 1 at T = 1 is off, by how much is not known yet, most after ''")


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


def repeat_a_batch() -> Callable[[list[Text], Sampling], list[Text]]:
    """The noise begins anew with every batch."""
    first: dict[tuple[Sampling, int], list[Text]] = {}
    return lambda texts, sampling: first.setdefault((sampling, len(texts)), texts)


@each(laws=list(BOTH), change=[repeat_the_first, repeat_a_neighbour, repeat_a_batch()])
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


class Forgetful(Faulty):
    """Forgets truncations on the path of the drafts, and fails when it is asked what became of them."""

    acceptance: Any = 0

    def texts(self, prompt: str, count: int, length: int, sampling: Sampling, seed: int, *, drafts: bool) -> list[Text]:
        cut = Sampling(sampling.temperature) if drafts else sampling
        return super().texts(prompt, count, length, cut, seed, drafts=drafts)


class Coarse(FunctionLaws):
    """Laws of a model in bfloat16."""

    def __init__(self, law: Callable[[tuple[int, ...]], list[float]]) -> None:
        super().__init__(law)
        self.rounding = 2.0**-3


APART = 0.4 * math.exp(-0.05)
TIES: dict[str, tuple[list[float], type[FunctionLaws], bool]] = {
    "of logits .0015 apart": ([0.4003, 0.3997, 0.2], FunctionLaws, True),
    "of logits .05 apart": ([0.4, APART, 0.2, 0.4 - APART], FunctionLaws, False),
    "of logits .05 apart, in bfloat16": ([0.4, APART, 0.2, 0.4 - APART], Coarse, True),
}


@each(tie=TIES)
def test_a_near_tie_is_no_bias_and_as_near_as_the_arithmetic_rounds(
    tie: tuple[list[float], type[FunctionLaws], bool],
) -> None:
    law, kind, near = tie
    every: Any = lambda before: law  # noqa: E731
    engine = Faulty(
        lambda t, s: [x._replace(tokens=(1, *x.tokens[1:])) for x in t] if s.greedy else t, plain=every, drafted=every
    )
    audit = audit_engine(engine, prompts=[""], laws=kind(every), **QUICK)
    assert [one.cause for one in audit.outcome.divergences] == ["near tie" if near else "rule"]
    assert audit.verdict is (EngineVerdict.NO_EVIDENCE if near else EngineVerdict.NOT_LOSSLESS)


Change = Callable[[list[Text], Sampling], list[Text]]


def drawn(change: Callable[[Text], Text]) -> Change:
    """Of texts that are not greedy."""
    return lambda texts, sampling: texts if sampling.greedy else [change(text) for text in texts]


def certain(text: Text) -> Text:
    return text._replace(logprobs=(0.0,) * len(text.tokens))


def longer(text: Text) -> Text:
    return text._replace(tokens=(*text.tokens, 0))


def past_the_end(text: Text) -> Text:
    return longer(text) if text.ended == "stop" and len(text.tokens) == 1 else text


def cut_short(text: Text) -> Text:
    return text._replace(tokens=text.tokens[:1]) if text.ended == "length" else text


def slightly(before: tuple[int, ...]) -> Any:
    return 0.92 * np.array(markov(before)) + 0.08 * np.eye(3)[0]


def without_end(text: Text) -> Text:
    return text._replace(tokens=text.tokens[:-1]) if text.tokens[-1] == END else text


def unlucky(before: tuple[int, ...]) -> list[float]:
    """Of the two tokens that tie at the border of top-k the last is kept: engines may keep either."""
    return [0.6, 0.2 - 1e-9, 0.2 + 1e-9]


def first_row(before: tuple[int, ...]) -> Any:
    return MARKOV[0]


def sure_of_all() -> Faulty:
    return Faulty(lambda texts, sampling: [*map(certain, texts)], with_logprobs=True)


def unsure(texts: list[Text], sampling: Sampling) -> list[Text]:
    return [text._replace(logprobs=(math.nan, *(text.logprobs or ())[1:])) for text in texts]


TWO = [Sampling(), Sampling(top_k=2)]
ENDING = FunctionLaws(markov, (END,))
VERDICTS: dict[str, tuple[Callable[[], Faulty], dict[str, Any], str, str]] = {
    "longer": (lambda: Faulty(drawn(longer)), {"laws": LAWS}, "not lossless", "longer than asked for"),
    "past": (lambda: Faulty(drawn(past_the_end), (END,)), {"laws": ENDING}, "not lossless", "text: at token 2 after"),
    "short": (lambda: Faulty(drawn(cut_short), (END,)), {"laws": ENDING}, "not lossless", "cut short"),
    "short, no ends": (lambda: Faulty(drawn(cut_short)), {"laws": LAWS}, "not lossless", "no token that ends a text"),
    "short without drafts too": (lambda: Faulty(ends=(END,)), {"laws": LAWS}, "no evidence", "short, as texts without"),
    "ends": (lambda: Faulty(ends=(END,)), {"laws": ENDING}, "no evidence", ""),
    "hidden": (lambda: Faulty(lambda t, s: [*map(without_end, t)], (END,)), {"laws": ENDING}, "no evidence", ""),
    "logprobs": (partial(Faulty, with_logprobs=True), {"laws": LAWS}, "no evidence", ""),
    "logprobs, two samples": (partial(Faulty, with_logprobs=True), {}, "no evidence", ""),
    "certain": (sure_of_all, {"laws": LAWS}, "no evidence", "log-probabilities with drafts are wrong"),  # of the text
    "certain, two samples": (sure_of_all, {}, "no evidence", "log-probabilities with drafts are wrong"),
    "no number, two samples": (partial(Faulty, unsure, with_logprobs=True), {}, "no evidence", "drafts are wrong"),
    "plain ones wrong": (
        *(partial(Faulty, with_logprobs=True, plain=first_row, drafted=first_row), {"laws": FunctionLaws(first_row)}),
        *("no evidence", "not judged"),
    ),
    "characters": (partial(Faulty, in_characters=True), {"texts": 4000}, "no evidence", ""),
    "characters, biased": (
        *(partial(Faulty, in_characters=True, drafted=biased_at(2)), {"texts": 4000}, "not lossless", ""),
    ),
    "ids without drafts": (lambda: Faulty(drawn(lambda text: text._replace(tokens=()))), {}, "no evidence", ""),
    "plain text, slightly": (
        *(partial(Faulty, plain=slightly, drafted=slightly), {"laws": LAWS, "texts": 1500, "seed": 0}, "cannot tell"),
        "texts without drafts have not the exact law either",
    ),
    "biased, and plain text slightly": (
        *(partial(Faulty, plain=slightly, drafted=biased_at(2)), {"laws": LAWS, "seed": 12}, "not lossless", "at T"),
    ),
    "plain text": (
        *(partial(Faulty, plain=biased_at(2), drafted=biased_at(2)), {"laws": LAWS}, "cannot tell"),
        "texts without drafts have not the exact law either",
    ),
    "forgetful": (Forgetful, {"laws": LAWS, "samplings": TWO}, "not lossless", "at T = 1, top-k 2 is off"),
    "few": (Faulty, {"laws": LAWS, "texts": 64}, "cannot tell", "64 texts do not suffice to catch the control"),
    "greedy": (Faulty, {"laws": LAWS, "samplings": [Sampling(0.0)]}, "cannot tell", "only greedy text was asked for"),
    "rounding": (
        *(lambda: Faulty(plain=lambda before: [0.6, 0.2, 0.2], drafted=unlucky),),
        *({"laws": FunctionLaws(lambda b: [0.6, 0.2, 0.2]), "samplings": TWO},),
        *("no evidence", ""),
    ),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_what_is_said_of_an_engine(name: str) -> None:
    make, request, verdict, said = VERDICTS[name]
    audit = audit_engine(make(), prompts=["x"], **{**QUICK, **request})
    assert audit.verdict.value == verdict
    messages = [finding.message for finding in audit.outcome.findings]
    assert any(said in one for one in (audit.reason, *messages)) if said else not messages
    if messages and verdict == "not lossless":
        assert any(finding.bias for finding in audit.outcome.findings)
    if name in ("ends", "hidden"):
        assert audit.outcome.places[-1].texts < 3000
    if name == "greedy":
        assert audit.outcome.texts == 0
    if name == "rounding":
        assert audit.outcome.undecided == 4500


def test_all_texts_are_drawn_where_asked_for_and_the_result_is_json() -> None:
    request: dict[str, Any] = {"prompts": ["x"], "laws": LAWS, **QUICK}
    short: Any = audit_engine(Faulty(drafted=biased_at(2)), **request)
    whole: Any = audit_engine(Faulty(drafted=biased_at(2)), all_texts=True, **request)
    assert short.outcome.texts < whole.outcome.texts == 3000
    assert short.outcome.worst.lower < whole.outcome.worst.lower <= 0.3
    found = json.loads(short.to_json())
    assert (found["engine"], found["verdict"], found["compared_with"]) == ("laws", "not lossless", "exact law")
    assert found["settings"]["control_bias"] == 0.1
    assert {"position", "lower", "upper", "evidence", "prompt", "sampling", "texts"} == set(found["places"][0])


@each(laws=list(BOTH))
def test_bounds_hold_the_truth_between_them(laws: str) -> None:
    """Over five seeds: the first token is off by 0.3, and so are texts."""
    chosen: Laws | None = BOTH[laws]
    for seed in range(5):
        audit = audit_engine(
            Faulty(drafted=biased_at(1)), prompts=[""], laws=chosen, all_texts=True, seed=seed,
            texts=800, length=2, greedy_length=1,
        )  # fmt: skip
        first, second = audit.outcome.places
        assert 0 < first.lower <= 0.3 <= first.upper < 0.9
        assert second.upper >= 0.3
        assert second.lower <= (1e-9 if laws == "exact law" else 0.3)

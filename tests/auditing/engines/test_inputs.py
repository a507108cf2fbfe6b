"""What cannot be audited is refused in one sentence."""

from typing import Any

import pytest

from otspec.auditing.engines import EngineDied, FunctionLaws, Sampling, Text, audit_engine, audit_texts
from otspec.auditing.engines.adapters import make, start
from otspec.errors import ProblemError
from tests.auditing.engines.engines import LAWS, QUICK, Faulty, markov
from tests.each import each
from tests.refusals import Refused, check_refused

SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"texts": 0}, "texts is 0; pass an integer >= 1, at most 10,000,000"),
    ({"length": 2.5}, "length is 2.5; pass an integer >= 1"),
    ({"alpha": 1}, "alpha is 1; it lies between 0 and 1"),
    ({"tolerance": "much"}, "tolerance is 'much'; it is above 0"),
    ({"all_texts": 1}, "all_texts is 1; pass True or False"),
    ({"texts": 3, "prompts": ["a", "b", "c", "d"]}, "texts is 3, and there are 4 pairs of prompt and sampling"),
    ({"prompts": []}, "there are no prompts"),
    ({"samplings": []}, "there is no sampling"),
    ({"progress": 3}, "progress is 3; pass a function"),
]
SAMPLINGS: list[tuple[dict[str, Any], str]] = [
    ({"temperature": -1.0}, "temperature = -1; it is finite and >= 0"),
    ({"top_k": -2}, "top_k = -2; it is a number of tokens"),
    ({"top_p": 0.0}, "top_p = 0; it is a mass in"),
    ({"min_p": 1.5}, "min_p = 1.5; it is a part of the largest"),
]


@each(case=[*SETTINGS, *SAMPLINGS])
def test_settings_and_samplings(case: tuple[dict[str, Any], str]) -> None:
    given, message = case
    with pytest.raises(ProblemError, match=message):
        Sampling(**given) if case in SAMPLINGS else audit_engine(Faulty(), laws=LAWS, **given)


class Dying(Faulty):
    def texts(self, prompt: str, count: int, *rest: Any, **more: Any) -> list[Text]:
        raise ConnectionResetError("gone")


class Nothing:
    """No engine."""


class Short(Faulty):
    def texts(self, prompt: str, count: int, *rest: Any, **more: Any) -> list[Text]:
        return super().texts(prompt, max(count - 1, 1), *rest, **more)


HALVES, SHORT_OF_1 = (FunctionLaws(lambda before, law=law: law) for law in ([0.5, 0.5], [0.5, 0.3, 0.1]))
BREAKING: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (Dying(), {}, EngineDied, r"laws died at 1 texts of 6 tokens after 'x', T = 0, plain: .*: gone"),
    (Short(), {}, ProblemError, "was asked for 32 texts after 'x' and gave 31"),
    (Faulty(in_characters=True), {}, ProblemError, "tells no tokens, which the exact law needs"),
    (Faulty(), {"laws": HALVES, "greedy_length": 1}, ProblemError, "holds token 2, and the exact law has 2 tokens"),
    (Faulty(), {"laws": SHORT_OF_1}, ProblemError, r"the exact law sums to 0.9"),
]


@each(case=BREAKING)
def test_engines_and_laws_that_do_not_fit(case: tuple[Any, dict[str, Any], type[Exception], str]) -> None:
    engine, asked, kind, message = case
    with pytest.raises(kind, match=message):
        audit_engine(engine, **{**QUICK, "prompts": ["x"], "laws": LAWS, **asked})


REFUSED: list[Refused] = [
    (lambda: start("tgi", {}), "no engine 'tgi'; known: http, otspec, transformers, or a function"),
    (lambda: make("mine", Nothing, {}), "mine makes Nothing, which lacks name, version, method, texts, acceptance"),
    (lambda: audit_texts(["a"]), "there is nothing to compare the texts with"),
    (lambda: audit_texts([], []), "there are no texts"),
    (lambda: audit_texts([3], laws=FunctionLaws(markov)), "3 is no text; pass a string"),
]


def test_engines_and_texts_that_are_none() -> None:
    check_refused(REFUSED)
    assert make("mine", Faulty, {}).name == "laws"

"""What cannot be audited is refused in one sentence."""

from typing import Any

import pytest

from otspec.engine_audit import EngineDied, FunctionLaws, Sampling, Text, audit_engine, audit_texts
from otspec.engine_audit.adapters import make, start
from otspec.errors import ProblemError
from tests.engine_audit.engines import LAWS, QUICK, Faulty, markov


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"texts": 0}, "texts is 0; it is an integer from 1"),
        ({"length": 2.5}, "length is 2.5; it is an integer"),
        ({"seed": -1}, "seed is -1; it is an integer >= 0"),
        ({"alpha": 1}, "alpha is 1; it lies between 0 and 1"),
        ({"tolerance": "much"}, "tolerance is 'much'; it lies between 0 and inf"),
        ({"all_texts": 1}, "all_texts is 1; pass True or False"),
        ({"texts": 3, "prompts": ["a", "b", "c", "d"]}, "texts is 3, and there are 4 pairs of prompt and sampling"),
        ({"prompts": []}, "there are no prompts"),
        ({"prompts": [1]}, "there are no prompts"),
        ({"samplings": []}, "there is no sampling"),
        ({"progress": 3}, "progress is 3; pass a function"),
    ],
)
def test_settings(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        audit_engine(Faulty(), laws=LAWS, **setting)


@pytest.mark.parametrize(
    ("sampling", "message"),
    [
        ({"temperature": -1.0}, "temperature = -1; it is finite and >= 0"),
        ({"temperature": float("nan")}, "temperature = nan"),
        ({"top_k": -2}, "top_k = -2; it is a number of tokens"),
        ({"top_p": 0.0}, "top_p = 0; it is a mass in"),
        ({"min_p": 1.5}, "min_p = 1.5; it is a part of the largest"),
    ],
)
def test_samplings(sampling: dict[str, Any], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        Sampling(**sampling)


class Dying(Faulty):
    def texts(self, prompt: str, count: int, *rest: Any, **more: Any) -> list[Text]:
        raise ConnectionResetError("gone")


class Nothing:
    """No engine."""


class Short(Faulty):
    def texts(self, prompt: str, count: int, *rest: Any, **more: Any) -> list[Text]:
        return super().texts(prompt, max(count - 1, 1), *rest, **more)


def test_an_engine_that_dies_names_the_request() -> None:
    with pytest.raises(EngineDied, match=r"laws died at 1 texts of 6 tokens after 'x', T = 0, plain: .*: gone"):
        audit_engine(Dying(), prompts=["x"], laws=LAWS, **QUICK)


def test_an_engine_that_gives_fewer_texts_than_asked_for() -> None:
    with pytest.raises(ProblemError, match="was asked for 32 texts after 'x' and gave 31"):
        audit_engine(Short(), prompts=["x"], laws=LAWS, **QUICK)


def test_an_exact_law_needs_tokens_and_those_of_its_model() -> None:
    with pytest.raises(ProblemError, match="tells no tokens, which the exact law needs"):
        audit_engine(Faulty(in_characters=True), prompts=[""], laws=LAWS, **QUICK)
    two = FunctionLaws(lambda before: [0.5, 0.5])
    with pytest.raises(ProblemError, match="holds token 2, and the exact law has 2 tokens"):
        audit_engine(Faulty(), prompts=[""], laws=two, **{**QUICK, "greedy_length": 1})
    with pytest.raises(ProblemError, match=r"the exact law sums to 0.9"):
        audit_engine(Faulty(), prompts=[""], laws=FunctionLaws(lambda before: [0.5, 0.3, 0.1]), **QUICK)


def test_engines_by_name() -> None:
    with pytest.raises(ProblemError, match="no engine 'tgi'; known: http, otspec, transformers, or a function"):
        start("tgi", {})
    with pytest.raises(ProblemError, match="mine makes Nothing, which lacks name, version, method, texts, acceptance"):
        make("mine", Nothing, {})
    assert make("mine", Faulty, {}).name == "laws"


def test_settings_of_engines_by_name() -> None:
    pytest.importorskip("transformers")
    with pytest.raises(ProblemError, match="otspec has no setting 'url'; it has target, draft"):
        start("otspec", {"url": "x"})
    with pytest.raises(ProblemError, match="transformers needs the setting 'target'"):
        start("transformers", {})


def test_texts_without_an_engine() -> None:
    with pytest.raises(ProblemError, match="there is nothing to compare the texts with"):
        audit_texts(["a"])
    with pytest.raises(ProblemError, match="there are no texts"):
        audit_texts([], [])
    with pytest.raises(ProblemError, match="3 is no text; pass a string"):
        audit_texts([3], laws=FunctionLaws(markov))

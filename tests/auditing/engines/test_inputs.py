"""What cannot be audited is refused in one sentence."""

from collections.abc import Callable
from typing import Any

import pytest

from otspec.auditing.engines import EngineDied, FunctionLaws, Sampling, Text, audit_engine, audit_texts
from otspec.auditing.engines.adapters import make, start
from tests.auditing.engines.engines import LAWS, QUICK, Faulty, markov
from tests.refusals import Refused, check_refused


def request(engine: Any = None, **settings: Any) -> Callable[[], object]:
    """An audit of an engine without a fault, unless another is told."""
    return lambda: audit_engine(engine or Faulty(), **{**QUICK, "prompts": ["x"], "laws": LAWS, **settings})


class Dying(Faulty):
    def texts(self, prompt: str, count: int, *rest: Any, **more: Any) -> list[Text]:
        raise ConnectionResetError("gone")


class Short(Faulty):
    def texts(self, prompt: str, count: int, *rest: Any, **more: Any) -> list[Text]:
        return super().texts(prompt, max(count - 1, 1), *rest, **more)


HALVES, SHORT_OF_1 = (FunctionLaws(lambda before, law=law: law) for law in ([0.5, 0.5], [0.5, 0.3, 0.1]))
REFUSED: list[Refused] = [
    (request(texts=0), "texts is 0; pass an integer >= 1, at most 10,000,000"),
    (request(length=2.5), "length is 2.5; pass an integer >= 1"),
    (request(alpha=1), "alpha is 1; it lies between 0 and 1"),
    (request(tolerance="much"), "tolerance is 'much'; it is above 0"),
    (request(all_texts=1), "all_texts is 1; pass True or False"),
    (request(texts=3, prompts=["a", "b", "c", "d"]), "texts is 3, and there are 4 pairs of prompt and sampling"),
    (request(prompts=[]), "there are no prompts"),
    *((request(prompts=wrong), "there are no prompts") for wrong in ("ab", iter("ab"))),
    (request(samplings=[]), "there is no sampling"),
    (request(samplings=Sampling()), "there is no sampling; pass a list of one such"),
    (request(laws=markov), "laws is <function markov .*; pass FunctionLaws"),
    (request(laws=FunctionLaws(lambda before: [1.0, *before])), "the exact law has .* tokens along"),
    (request(Faulty(plain=lambda before: [0.0] * 9 + [1.0])), "holds token 9, and the exact law has 3 tokens"),
    (lambda: Sampling(top_k=1.5), "top_k = 1.5; it is a number of tokens"),  # type: ignore[arg-type]
    (lambda: audit_texts([[0.7]], laws=LAWS), r"\[0.7\] is no text; pass a string"),
    (request(Faulty(lambda texts, sampling: [Text(("a",), "")])), r"tokens=\('a',\).* is no text"),  # type: ignore[arg-type]
    (lambda: audit_texts("abab", "baba"), "pass a list of texts with drafts, and one of texts without"),
    (lambda: audit_texts(["ab"] * 9, [[0, 1]] * 9), "tokens alone, and some characters alone; tell all in one way"),
    (request(progress=3), "progress is 3; pass a function"),
    (lambda: Sampling(temperature=-1.0), "temperature = -1.0; it is finite and >= 0"),
    (lambda: Sampling(top_k=-2), "top_k = -2; it is a number of tokens"),
    (lambda: Sampling(top_p=0.0), "top_p = 0.0; it is a mass in"),
    (lambda: Sampling(min_p=1.5), "min_p = 1.5; it is a part of the largest"),
    (request(Short()), "was asked for 32 texts after 'x' and gave 31"),
    (request(Faulty(in_characters=True)), "tells no tokens, which the exact law needs"),
    (request(laws=HALVES, greedy_length=1), "holds token 2, and the exact law has 2 tokens"),
    (request(laws=SHORT_OF_1), r"the exact law sums to 0.9"),
    (lambda: start("tgi", {}), "no engine 'tgi'; known: http, otspec, transformers, or a function"),
    (lambda: make("mine", Sampling, {}), "mine makes Sampling, which lacks name, version, method, texts, acceptance"),
    (lambda: audit_texts(["a"]), "there is nothing to compare the texts with"),
    (lambda: audit_texts([], []), "there are no texts"),
]


def test_settings_engines_laws_and_texts_that_are_none_or_do_not_fit() -> None:
    check_refused(REFUSED)
    with pytest.raises(EngineDied, match=r"laws died at 1 texts of 6 tokens after 'x', T = 0, plain: .*: gone"):
        request(Dying())()
    assert make("mine", Faulty, {}).name == "laws"

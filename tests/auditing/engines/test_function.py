"""A function of the user's as an engine, and texts and engines in the tests of others."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from otspec.auditing.engines import EngineVerdict, FunctionLaws, Sampling, Text, audit_engine
from otspec.auditing.engines.adapters.function import Function
from otspec.testing import assert_lossless
from tests.auditing.engines.engines import LAWS, QUICK, Faulty, biased_at, markov
from tests.each import each
from tests.refusals import Refused, check_refused

LAW = FunctionLaws(lambda before: [0.5, 0.3, 0.2])
SHORT: dict[str, Any] = {"texts": 2000, "length": 2, "control_bias": 0.1, "greedy_length": 2}


def arrays(
    prompt: str, count: int, length: int, sampling: Sampling, seed: int, *, drafts: bool, off: float = 0.0
) -> Any:
    """Three tokens as an array."""
    law = np.array([0.5 - off * drafts, 0.3 + off * drafts, 0.2])
    law = np.eye(3)[law.argmax()] if sampling.greedy else law ** (1 / sampling.temperature)
    return np.random.default_rng((seed, drafts)).choice(3, (count, length), p=law / law.sum())


def strings(prompt: str, count: int, length: int, sampling: Sampling, seed: int, drafts: bool, off: float = 0.0) -> Any:
    found = arrays(prompt, count, length, sampling, seed, drafts=drafts, off=off)
    return ["".join("abc"[token] for token in text) for text in found]


def texts(*request: Any, **settings: Any) -> Any:
    """Three tokens as texts."""
    return [Text(tuple(text), "") for text in arrays(*request, **settings).tolist()]


def test_a_law_may_depend_on_the_prompt() -> None:
    laws = FunctionLaws(lambda prompt, before: [0.9, 0.1] if prompt == "a" else [0.1, 0.9], with_prompt=True)
    for prompt, law in (("a", [0.9, 0.1]), ("b", [0.1, 0.9])):
        np.testing.assert_allclose(np.exp(next(laws.along(prompt, [(0, 1)]))), [law, law])


@each(complete=[arrays, strings, texts])
def test_a_function_is_audited_as_an_engine(complete: Callable[..., Any]) -> None:
    laws = None if complete is strings else LAW
    assert audit_engine(complete, prompts=[""], laws=laws, **SHORT).verdict is EngineVerdict.NO_EVIDENCE
    biased = audit_engine(Function(complete, {"off": 0.3}), prompts=[""], laws=laws, **SHORT)
    assert (biased.verdict, biased.engine) == (EngineVerdict.NOT_LOSSLESS, complete.__name__)


def needs(prompt: str, count: int, length: int, sampling: Sampling, seed: int, drafts: bool, model: str) -> Any:
    """It needs a model."""


def numbers(prompt: str, count: int, length: int, sampling: Sampling, seed: int, *, drafts: bool) -> Any:
    return [3] * count


REFUSED: list[Refused] = [
    (lambda: Function(3, {}), "3 is no engine; pass a function, or an object with the names of Engine"),  # type: ignore[arg-type]
    (lambda: Function(arrays, {"model": "x"}), "arrays has no setting 'model'; it has off"),
    (
        lambda: Function(lambda prompt, count: [], {}),
        r"<lambda> takes \(prompt, count\); an engine's function takes pro",
    ),
    (lambda: Function(needs, {}), "seed, drafts; model is a setting without a value"),
    (lambda: Function(lambda *request: [], {}), r"<lambda> takes \(request\); an engine's function takes prompt"),
    (lambda: audit_engine(Function, prompts=[""], laws=LAW), "Function is a class; pass what it makes"),  # type: ignore[arg-type]
    (lambda: audit_engine(numbers, prompts=[""], laws=LAW, **SHORT), "3 is no text; pass a string, its tokens by num"),
]


def test_what_is_no_engine_and_no_text() -> None:
    check_refused(REFUSED)


# --- `otspec.testing.assert_lossless`, as other packages call it


def of_law(law_of: object, count: int, seed: int) -> list[tuple[int, ...]]:
    engine = Faulty(drafted=law_of)  # type: ignore[arg-type]
    return [text.tokens for text in engine.texts("", count, 3, Sampling(), seed, drafts=True)]


def test_an_engine_and_texts_beside_the_exact_law() -> None:
    assert assert_lossless(Faulty(), law=markov, prompts=[""], **QUICK).outcome.control.caught
    with pytest.raises(AssertionError, match=r"^not lossless: .*position 2 at T = 1 is off by at least"):
        assert_lossless(Faulty(drafted=biased_at(2)), law=markov, prompts=[""], **QUICK)
    assert assert_lossless(of_law(markov, 3000, 0), law=LAWS).outcome.compared_with == "exact law"
    with pytest.raises(AssertionError, match=r"^not lossless: "):
        assert_lossless(of_law(biased_at(3), 3000, 0), law=LAWS)
    with pytest.raises(AssertionError, match=r"^cannot tell: .*do not suffice to catch the control"):
        assert_lossless(of_law(markov, 50, 0), law=markov)  # what could not have failed proves nothing


def test_two_lists_of_texts() -> None:
    plain, same, other = (of_law(law, 2000, seed) for seed, law in enumerate((markov, markov, biased_at(2))))
    with pytest.raises(AssertionError, match=r"^not lossless: "):
        assert_lossless(other, plain)
    control = assert_lossless(same, plain).outcome.control
    assert control.caught
    assert 0.1 < (control.tv or 0.0) < 0.2

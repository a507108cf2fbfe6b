"""A function of the user's, as an engine."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from otspec.engine_audit import EngineVerdict, FunctionLaws, Sampling, Text, audit_engine
from otspec.engine_audit.adapters.function import Function
from otspec.errors import ProblemError
from otspec.testing import assert_lossless
from tests.each import each

LAW = [0.5, 0.3, 0.2]
LAWS = FunctionLaws(lambda before: LAW)
QUICK: dict[str, Any] = {"texts": 2000, "length": 2, "control_bias": 0.1, "greedy_length": 2}


def drawn(count: int, length: int, sampling: Sampling, seed: int, drafts: bool, off: float) -> Any:
    law = np.array([0.5 - off * drafts, 0.3 + off * drafts, 0.2])
    law = np.eye(3)[law.argmax()] if sampling.greedy else law ** (1 / sampling.temperature)
    return np.random.default_rng((seed, drafts)).choice(3, (count, length), p=law / law.sum())


def arrays(
    prompt: str, count: int, length: int, sampling: Sampling, seed: int, *, drafts: bool, off: float = 0.0
) -> Any:
    """Three tokens as an array."""
    return drawn(count, length, sampling, seed, drafts, off)


def strings(prompt: str, count: int, length: int, sampling: Sampling, seed: int, drafts: bool, off: float = 0.0) -> Any:
    return ["".join("abc"[token] for token in text) for text in drawn(count, length, sampling, seed, drafts, off)]


def texts(*request: Any, drafts: bool, **settings: Any) -> Any:
    """Three tokens as texts."""
    _, count, length, sampling, seed = request
    found = drawn(count, length, sampling, seed, drafts, settings.get("off", 0.0))
    return [Text(tuple(text), "") for text in found.tolist()]


@each(complete=[arrays, strings, texts])
def test_a_function_is_audited_as_an_engine(complete: Callable[..., Any]) -> None:
    laws = None if complete is strings else LAWS
    assert audit_engine(complete, prompts=[""], laws=laws, **QUICK).verdict is EngineVerdict.NO_EVIDENCE
    biased = audit_engine(Function(complete, {"off": 0.3}), prompts=[""], laws=laws, **QUICK)
    assert biased.verdict is EngineVerdict.NOT_LOSSLESS
    assert biased.engine == complete.__name__


def test_its_documentation_and_settings_are_the_method() -> None:
    assert Function(arrays, {"off": 0.3}).method == "Three tokens as an array, off 0.3"
    assert Function(strings).method == "a function"


def test_a_function_in_a_test_of_ones_own() -> None:
    assert_lossless(arrays, law=lambda before: LAW, prompts=[""], **QUICK)
    with pytest.raises(AssertionError, match=r"^not lossless"):
        assert_lossless(partial(arrays, off=0.3), law=LAWS, prompts=[""], **QUICK)


def needs(prompt: str, count: int, length: int, sampling: Sampling, seed: int, drafts: bool, model: str) -> Any:
    """It needs a model."""


@pytest.mark.parametrize(
    ("complete", "settings", "message"),
    [
        (3, {}, "3 is no engine; pass a function, or an object with the names of Engine"),
        (arrays, {"model": "x"}, "arrays has no setting 'model'; it has off"),
        (lambda prompt, count: [], {}, "<lambda> takes (prompt, count); an engine's function takes prompt, count, len"),
        (needs, {}, "seed, drafts; model is a setting without a value"),
        (lambda *request: [], {}, "<lambda> takes (request); an engine's function takes prompt"),
    ],
    ids=("no function", "unknown setting", "too few arguments", "a setting without a value", "no drafts"),
)
def test_what_is_no_function_for_it(complete: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ProblemError, match=re.escape(message)):
        Function(complete, settings)


def numbers(prompt: str, count: int, length: int, sampling: Sampling, seed: int, *, drafts: bool) -> Any:
    return [3] * count


def test_a_class_in_place_of_an_engine_and_no_texts() -> None:
    with pytest.raises(ProblemError, match="Function is a class; pass what it makes"):
        audit_engine(Function, prompts=[""], laws=LAWS)  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="3 is no text; pass a string, its tokens by number"):
        audit_engine(numbers, prompts=[""], laws=LAWS, **QUICK)

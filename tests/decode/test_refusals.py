"""A target without a law after some text is refused in the same words at every temperature."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from otspec import ProblemError  # noqa: E402
from otspec.decode import run  # noqa: E402
from otspec.decode.methods import PromptLookup, block  # noqa: E402
from otspec.decode.models.target import Target  # noqa: E402
from otspec.decode.step.strategy import Strategy  # noqa: E402
from otspec.verification.trees.topology import Topology  # noqa: E402
from tests.decode.models import pair  # noqa: E402

PROMPTS = torch.tensor([[1, 2, 3], [4, 2, 3]])
REASONS = {"nan": "logits that are nan", "inf": "a logit of infinity", "-inf": "minus infinity for all tokens"}


@contextmanager
def spoilt(value: float, new: int, tokens: slice) -> Iterator[None]:
    """Targets whose logits are that of some tokens, after the second of two texts once it has so many new ones."""
    read = Target.read

    def spoil(self: Target, texts: list[list[int]], trees: list[Topology]) -> Any:
        logits = read(self, texts, trees).clone()
        if len(texts) == 2 and len(texts[1]) >= PROMPTS.shape[1] + new:
            logits[trees[0].size :, tokens] = value
        return logits

    with mock.patch.object(Target, "read", spoil):
        yield


@settings(max_examples=15, derandomize=True, deadline=None)
@given(
    st.sampled_from(["nan", "inf", "-inf"]),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
)
def test_the_text_and_the_reason_are_named(
    value: str, temperature: float, new: int, everywhere: bool, looks_up: bool
) -> None:
    target, draft = pair()
    strategy: Strategy = PromptLookup(depth=2) if looks_up else block(draft, 3)
    tokens = slice(None) if everywhere or value == "-inf" else slice(2, 3)
    with spoilt(float(value), new, tokens), pytest.raises(ProblemError) as refused:
        run(target, strategy, PROMPTS, max_new_tokens=12, temperature=temperature, seed=1)
    words = str(refused.value)
    assert words.startswith("text 1, after ")
    assert REASONS[value] in words
    assert int(words.removeprefix("text 1, after ").split()[0]) >= new


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_one_token_of_minus_infinity_is_impossible_and_no_more(temperature: float) -> None:
    target, draft = pair()
    with spoilt(-torch.inf, 0, slice(2, 3)):
        texts = run(target, block(draft, 3), PROMPTS, max_new_tokens=12, temperature=temperature, seed=1).new_tokens
    assert 2 not in texts[1]


def test_a_temperature_that_makes_infinities_is_too_small() -> None:
    target, draft = pair()
    with pytest.raises(ProblemError, match=r"temperature is 1e-40, .* pass 0 for greedy"):
        run(target, block(draft, 3), PROMPTS, max_new_tokens=4, temperature=1e-40)

"""Where texts end, and how they come: lengths, tokens, criteria, stop strings, streams."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from transformers import StoppingCriteria  # noqa: E402

import otspec  # noqa: E402
from otspec import ProblemError  # noqa: E402
from tests.decode.models import Streamer, Words, greedy_text, pair  # noqa: E402

PROMPTS = torch.tensor([[1, 2, 3], [4, 5, 6]])


def test_texts_end_where_they_should() -> None:
    target, draft = pair(40)
    whole = otspec.generate(target, draft, PROMPTS, max_new_tokens=30, seed=3)
    eos = whole.new_tokens[0][12]
    ended = otspec.generate(target, draft, PROMPTS, max_new_tokens=30, seed=3, eos_token_id=eos, pad_token_id=39)
    for new, full in zip(ended.new_tokens, whole.new_tokens, strict=True):
        cut = full.index(eos) + 1 if eos in full else len(full)
        # Which texts still run decides over the randomness of the next step, so only the first to end is comparable.
        assert new.count(eos) == (1 if new[-1] == eos else 0)
        assert len(new) == 30 or new[-1] == eos
        if cut == min(len(tokens) for tokens in ended.new_tokens):
            assert new == full[:cut]
    width = max(map(len, ended.new_tokens))
    for row, new in enumerate(ended.new_tokens):
        assert ended.sequences[row].tolist() == PROMPTS[row].tolist() + new + [39] * (width - len(new))


def test_max_length_is_met_exactly() -> None:
    target, draft = pair(40, noise=0.0)
    for new in (1, 2, 3, 9):
        generation = otspec.generate(target, draft, PROMPTS, max_length=3 + new, seed=1, paths=2, depth=4)
        assert generation.sequences.shape == (2, 3 + new), new
        assert len(generation.metrics.offered) == min(4, new - 1), new


class _Stop(StoppingCriteria):  # type: ignore[misc]
    """Stop where a token stands, however long the text."""

    def __init__(self, token: int) -> None:
        self.token = token

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        return input_ids[:, -1] == self.token


def test_stopping_criteria_are_asked_after_every_token() -> None:
    target, draft = pair(40, noise=0.05)
    text = greedy_text(target, [1, 2, 3], 20)
    stop = text[12]
    generation = otspec.generate(
        target, draft, PROMPTS[:1], max_new_tokens=17, temperature=0, stopping_criteria=[_Stop(stop)]
    )
    assert generation.new_tokens[0] == text[3 : text.index(stop, 3) + 1]


def test_stop_strings() -> None:
    target, draft = pair(40)
    text = greedy_text(target, [1, 2, 3], 20)
    stop = f"<{text[9]}><{text[10]}>"
    generation = otspec.generate(
        target, draft, PROMPTS[:1], max_new_tokens=17, temperature=0, stop_strings=[stop], tokenizer=Words()
    )
    assert generation.new_tokens[0] == text[3:11]
    with pytest.raises(ProblemError, match="pass tokenizer="):
        otspec.generate(target, draft, PROMPTS, stop_strings=["a"])


def test_streaming() -> None:
    target, draft = pair(40)
    streamer = Streamer()
    generation = otspec.generate(target, draft, PROMPTS[:1], max_new_tokens=12, seed=1, streamer=streamer)
    assert streamer.tokens == generation.sequences[0].tolist()
    assert streamer.blocks == 1 + generation.metrics.target_calls
    assert streamer.ended

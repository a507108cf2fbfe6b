"""Prompt lookup as vLLM asks for it: the latest occurrence of the longest ending, where there is room to draft."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from otspec import ProblemError
from otspec.engines import vllm


def proposer(tokens: int, context: int = 12) -> Any:
    return vllm.Proposer(
        SimpleNamespace(
            speculative_config=SimpleNamespace(num_speculative_tokens=tokens),
            model_config=SimpleNamespace(max_model_len=context),
        )
    )


def test_what_followed_the_ending_is_drafted() -> None:
    texts = [
        [1, 2, 3, 4, 1, 2, 5, 6, 1, 2],
        [7, 8, 9],
        [1, 1, 1],
        [4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4],
    ]
    rows = np.full((4, 12), 99)
    for row, text in enumerate(texts):
        rows[row, : len(text)] = text
    made = proposer(3)
    made.load_model(None)
    lengths = np.array([len(text) for text in texts])
    found = made.propose([[2], [9], [], [4]], lengths, rows, slot_mappings=None)
    assert found == [[5, 6, 1], [], [], []]  # the latest; nothing; a prompt that is being read; no room


def test_how_many_tokens_are_looked_up_is_said_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    text = np.array([[1, 2, 3, 9, 2, 3, 8, 1, 2, 3]])
    drafts = {}
    for ngram in ("1", "3"):
        monkeypatch.setenv("OTSPEC_PROPOSER_NGRAM", ngram)
        drafts[ngram] = proposer(1).propose([[3]], np.array([10]), text)
    assert drafts == {"1": [[8]], "3": [[9]]}
    monkeypatch.setenv("OTSPEC_PROPOSER_NGRAM", "none")
    with pytest.raises(ProblemError, match="OTSPEC_PROPOSER_NGRAM=none; it is how many tokens to look up"):
        proposer(1)


def test_there_is_nothing_else_by_any_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Drafter'"):
        _ = vllm.Drafter

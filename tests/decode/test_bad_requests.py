"""A request that cannot be meant is refused by name, before anything is decoded."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from otspec import ProblemError, generate  # noqa: E402
from tests.decode.models import pair  # noqa: E402

PROMPT = torch.tensor([[1, 2, 3]])
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"max_new_tokens": 1.5}, "max_new_tokens is 1.5"),
    ({"max_new_tokens": 0}, "max_new_tokens is 0"),
    ({"max_length": True}, "max_length is True"),
    ({"seed": -1}, "seed is -1"),
    ({"seed": True}, "seed is True"),
    ({"seed": [1, 2]}, "seed is [1, 2]"),
    ({"temperature": -1.0}, "temperature is -1.0"),
    ({"temperature": float("nan")}, "temperature is nan"),
    ({"temperature": "warm"}, "temperature is 'warm'"),
    ({"top_p": 2}, "top_p is 2"),
    ({"top_k": 1.5}, "top_k is 1.5"),
    ({"top_k": -3}, "top_k is -3"),
    ({"stop_strings": ""}, "stop_strings are ''"),
    ({"stop_strings": ["a", 3]}, "stop_strings are ['a', 3]"),
    ({"stop_strings": "a"}, "pass tokenizer="),
]


@pytest.mark.parametrize(("options", "words"), WRONG, ids=[words for _, words in WRONG])
def test_options_are_refused_by_name(options: dict[str, Any], words: str) -> None:
    target, draft = pair()
    with pytest.raises(ProblemError) as refused:
        generate(target, draft, PROMPT, **{"max_new_tokens": 4, **options})
    assert words in str(refused.value)


def test_stop_strings_of_a_models_own_configuration_need_a_tokenizer() -> None:
    target, draft = pair()
    target = copy.deepcopy(target)
    target.generation_config.stop_strings = ["end"]
    with pytest.raises(ProblemError, match=r"stop_strings of the target's generation_config are text \(\['end'\]\)"):
        generate(target, draft, PROMPT, max_new_tokens=4)


@pytest.mark.parametrize("token", [8, -1, 100])
def test_a_token_beyond_the_targets_head_is_named(token: int) -> None:
    target, draft = pair()
    ids = torch.tensor([[1, 2, 3], [1, token, 3]])
    with pytest.raises(ProblemError, match=f"token {token}, at place 1 of prompt 1, is none of the target's 8"):
        generate(target, draft, ids, max_new_tokens=4)


def test_padding_may_be_any_number() -> None:
    target, draft = pair()
    ids, mask = torch.tensor([[100, 2, 3]]), torch.tensor([[0, 1, 1]])
    alone = generate(target, draft, ids[:, 1:], max_new_tokens=4, temperature=0).new_tokens
    assert generate(target, draft, ids, attention_mask=mask, max_new_tokens=4, temperature=0).new_tokens == alone

"""Conversations: prompts by the chat template, and the model's own answers in those that follow."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

pytest.importorskip("jinja2")

from otspec.decode.methods.catalogue import decoder
from otspec.decode.pair.conversations import Conversation, all_prompts, check_lengths, conversations_of, converse
from otspec.decode.pair.loading import Models, batch_of
from otspec.decode.step.harness import Generation
from otspec.errors import ProblemError
from tests.decode.models import pair
from tests.refusals import check_refused
from tests.saved_pair import VOCAB, tokenizer

TEMPLATE = (
    "{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"
)
NEW = 5


def with_template(template: str | None = TEMPLATE) -> Any:
    """A tokenizer with a chat template, or without one."""
    made = tokenizer()
    made.chat_template = template
    return made


@pytest.fixture(scope="module")
def models() -> Models:
    target, draft = pair(VOCAB, positions=256)
    return Models(target, with_template(), draft, with_template())


def _greedily(models: Models, seen: list[tuple[int, int]]) -> Any:
    plain = decoder("prompt-lookup", models, {"depth": 2})

    def decode(rows: Sequence[Sequence[int]], turn: int) -> Generation:
        seen.append((turn, len(rows)))
        return plain(**batch_of(rows, models.target.device), temperature=0.0, max_new_tokens=NEW, seed=0)

    return decode


@pytest.mark.parametrize("answered", [False, True])
def test_all_prompts_are_those_of_the_conversation(models: Models, answered: bool) -> None:
    conversations = conversations_of(models.tokenizer, [("a", "b"), ("c",)], template=True)
    seen: list[tuple[int, int]] = []
    rows = all_prompts(conversations, _greedily(models, seen), models.tokenizer, answered)
    turns = list(converse(conversations, _greedily(models, []), models.tokenizer))
    answer = models.tokenizer.decode(turns[0].generation.new_tokens[0])
    prompts = [[*conversations[0].first], [*conversations[0].prompt([answer])], [*conversations[1].first]]
    answers = [turns[0].generation.new_tokens[0], turns[1].generation.new_tokens[0], turns[0].generation.new_tokens[1]]
    wanted = [[*prompt, *new] for prompt, new in zip(prompts, answers, strict=True)] if answered else prompts
    assert rows == wanted
    assert len(seen) == (3 if answered else 1)  # what is asked last is not answered


def test_special_tokens_are_the_templates_own() -> None:
    """Tokenizers that begin every text would begin it twice."""
    made = with_template("<s>{{ messages[0].content }}")
    made.add_special_tokens({"bos_token": "<s>"})
    (one,) = conversations_of(made, [("a",)], template=True)
    assert list(one.first).count(made.bos_token_id) == 1


FAILS = "fails at turn 1 of a conversation: "
REFUSED: list[tuple[str | None, list[tuple[str, ...]], bool, str]] = [
    (None, [("a",)], True, "the tokenizer of the target has no chat template; pass --no-chat"),
    ("{{ raise_exception('no such role') }}", [("a",)], True, f"{FAILS}no such role; pass --no-ch"),
    ("{{ messages[0].nothing.at_all }}", [("a",)], True, FAILS),
    ("{% if false %}a{% endif %}", [("a",)], True, "prompt 1 is empty"),
    (TEMPLATE, [("a",), ("b", "c")], False, "has 2 turns, and a turn after an answer needs a chat"),
]
"""Templates, what is asked by them or without, and what is said."""


def test_what_is_refused() -> None:
    check_refused(
        (partial(conversations_of, with_template(written), request, template=by_template), message)
        for written, request, by_template, message in REFUSED
    )


def test_conversations_that_are_too_long_are_told_before_any_is_had(models: Models) -> None:
    fits = conversations_of(models.tokenizer, [("a",), ("b" * 30, "c")], template=True)
    check_lengths(fits, models, 90)
    with pytest.raises(
        ProblemError, match=r"conversation 2 has \d+ tokens in 2 turns and may get 2 x 110 more, and the"
    ):
        check_lengths(fits, models, 110)
    with pytest.raises(ProblemError, match=r"has 9 tokens in one turn and may get 1 x 300 more.*pass --prompt-tokens"):
        check_lengths([Conversation(range(9))], models, 300)

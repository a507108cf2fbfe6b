"""Conversations: prompts turn by turn, by the chat template of a tokenizer, after the model's own answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from otspec.decode.models.context import positions
from otspec.decode.pair.loading import Models, encode
from otspec.decode.step.harness import Generation
from otspec.errors import ProblemError

Decode = Callable[[Sequence[Sequence[int]], int], Generation]
"""Takes the prompts of some conversations, and the number of their turn."""


@dataclass(frozen=True, eq=False)
class Conversation:
    """The prompts to a model, turn by turn.

    Examples
    --------
    >>> from otspec.decode.pair.conversations import Conversation
    >>> Conversation([5, 7]).count  # one prompt, in tokens
    1
    """

    first: Sequence[int]
    """Tokens of the first prompt."""
    turns: Sequence[str] = ()
    """The user's turns, the first included; empty where the prompt is all there is."""
    tokenizer: Any = None
    """Has the template that later prompts are made by."""

    @property
    def count(self) -> int:
        """Number of turns."""
        return max(len(self.turns), 1)

    def prompt(self, answers: Sequence[str]) -> Sequence[int]:
        """Tokens of the prompt that comes after these answers."""
        return templated(self.tokenizer, self.turns[: len(answers) + 1], answers) if answers else self.first


class Turn(NamedTuple):
    """A turn of some conversations."""

    number: int
    """From 0 on."""
    going: Sequence[int]
    """Which conversations have so many turns."""
    generation: Generation


def conversations_of(
    tokenizer: Any, questions: Sequence[Sequence[str]], template: bool, first: bool = False
) -> list[Conversation]:
    """Conversations from the users' turns.

    Parameters
    ----------
    tokenizer
        Of transformers.
    questions : sequence of sequences of str
        The turns of each conversation, at least one.
    template : bool
        Whether turns are put into the tokenizer's chat template.
    first : bool
        Leave out all turns but the first.

    Raises
    ------
    ProblemError
        If there is no template, or it fails, or several turns have none; if a prompt is no text.
    """
    questions = [turns[:1] if first else turns for turns in questions]
    if template and not getattr(tokenizer, "chat_template", None):
        raise ProblemError(
            "the tokenizer of the target has no chat template; pass --no-chat to pass prompts as they are"
        )
    if not template:
        if several := next((turns for turns in questions if len(turns) > 1), None):
            raise ProblemError(
                f"a conversation has {len(several)} turns, and a turn after an answer needs a chat template; "
                "pass --turns first, or --chat with a target whose tokenizer has one"
            )
        return [Conversation(row) for row in encode(tokenizer, [turns[0] for turns in questions])]
    return [Conversation(templated(tokenizer, turns[:1], ()), turns, tokenizer) for turns in questions]


def templated(tokenizer: Any, turns: Sequence[str], answers: Sequence[str]) -> list[int]:
    """Tokens of a conversation up to the last turn, for the model to answer.

    Raises
    ------
    ProblemError
        If the tokenizer's template fails, or leaves nothing.
    """
    messages = [{"role": "user", "content": turns[0]}]
    for answer, turn in zip(answers, turns[1:], strict=True):
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": turn}]
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # whatever a template, which is a program of somebody's, raises
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise ProblemError(
            f"the chat template of the target fails at turn {len(turns)} of a conversation: {reason}; pass --no-chat "
            "to have prompts as they are, or --turns first"
        ) from error
    return encode(tokenizer, [text], special=False)[0]  # the template writes what begins a text itself


def check_lengths(conversations: Sequence[Conversation], models: Models, new: int) -> None:
    """Raise unless the target has positions for each conversation, however long its answers become.

    Raises
    ------
    ProblemError
        If it has too few.
    """
    room = positions(models.target)
    for number, one in enumerate(conversations, start=1):
        prompt = len(one.prompt([""] * (one.count - 1)))
        if prompt + one.count * new > room:
            turns, way = (f"{one.count} turns", "--turns first") if one.count > 1 else ("one turn", "--prompt-tokens")
            raise ProblemError(
                f"conversation {number} has {prompt} tokens in {turns} and may get {one.count} x {new} more, and the "
                f"target has {room} positions; shorten it, request fewer new tokens, or pass {way}"
            )


def converse(conversations: Sequence[Conversation], decode: Decode, tokenizer: Any) -> Iterator[Turn]:
    """Have some conversations, side by side: each prompt holds the model's answers to those before it.

    Parameters
    ----------
    conversations : sequence of Conversation
    decode : callable
    tokenizer
        Spells the answers.
    """
    answers: list[list[str]] = [[] for _ in conversations]
    for number in range(max(one.count for one in conversations)):
        going = [at for at, one in enumerate(conversations) if one.count > number]
        generation = decode([conversations[at].prompt(answers[at]) for at in going], number)
        for at, tokens in zip(going, generation.new_tokens, strict=True):
            answers[at].append(_spelled(tokenizer, tokens))
        yield Turn(number, going, generation)


def all_prompts(
    conversations: Sequence[Conversation], decode: Decode, tokenizer: Any, answered: bool = False
) -> list[list[int]]:
    """The tokens of the prompts of all turns, conversation by conversation.

    Parameters
    ----------
    conversations, decode, tokenizer
        As of `converse`.
    answered : bool
        Whether each prompt is followed by its answer; otherwise the last turn is not answered.
    """
    found = []
    for one in conversations:
        answers: list[str] = []
        for turn in range(one.count):
            prompt = list(one.prompt(answers))
            is_last = turn + 1 == one.count
            written = [] if is_last and not answered else decode([prompt], turn).new_tokens[0]
            answers.append(_spelled(tokenizer, written))
            found.append([*prompt, *written] if answered else prompt)
    return found


def turn_seed(seed: int, turn: int) -> int:
    """The seed of a turn, from that of its conversation, which the first has."""
    return seed + (turn << 40)


def _spelled(tokenizer: Any, tokens: Sequence[int]) -> str:
    text: str = tokenizer.decode(tokens, skip_special_tokens=True)
    return text

"""Whose turn it is in a conversation that a model writes by itself, questions and answers [xu2024magpie].

A model that was tuned to answer, given nothing but the beginning of a user's turn, writes a question of a user.  What
the chat template has between two turns is put in where a turn has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from otspec.errors import ProblemError

MARKS = ("\x1aone\x1a", "\x1atwo\x1a", "\x1athree\x1a")
"""What no template has, to find the turns of one again."""


@dataclass(frozen=True)
class Speakers:
    """What stands before, between and after turns, in tokens."""

    opening: tuple[int, ...]
    """Before the first question."""
    answer: tuple[int, ...]
    """Between a question and its answer; its first token ends a turn."""
    question: tuple[int, ...]
    """Between an answer and the next question; its first token ends a turn."""

    @classmethod
    def of(cls, tokenizer: Any) -> Speakers:
        """Those of a tokenizer's chat template.

        Raises
        ------
        ProblemError
            If there is none, or it does not show turns as they are, each ended by a token.
        """
        if not getattr(tokenizer, "chat_template", None):
            raise ProblemError(
                "the tokenizer of the target has no chat template, which its own questions need; pass --prompts FILE"
            )
        roles = ("user", "assistant", "user")
        messages = [{"role": role, "content": mark} for role, mark in zip(roles, MARKS, strict=True)]
        try:
            text = tokenizer.apply_chat_template(messages, tokenize=False)
            opening, text = _parted(text, MARKS[0])
            answer, text = _parted(text, MARKS[1])
            question, _ = _parted(text, MARKS[2])
        except Exception as error:  # whatever a template, which is a program of somebody's, raises
            raise ProblemError(
                f"the chat template of the target does not show three turns in a row: {error}"
            ) from error
        parts = [tuple(tokenizer(part, add_special_tokens=False).input_ids) for part in (opening, answer, question)]
        if not all(parts):
            raise ProblemError("the chat template of the target has nothing before a turn, or nothing that ends it")
        return cls(*parts)

    def begin(self, count: int) -> Floor:
        """So many conversations, each at the user's turn."""
        return Floor(self, count)


class Floor:
    """Conversations under way.

    Parameters
    ----------
    speakers : Speakers
    count : int
    """

    def __init__(self, speakers: Speakers, count: int) -> None:
        self._between = (speakers.answer, speakers.question)
        self._turns = [0] * count
        self._owed: list[deque[int]] = [deque() for _ in range(count)]

    @property
    def answering(self) -> list[bool]:
        """Of each, whether it is the model's own turn."""
        return [turn % 2 == 1 for turn in self._turns]

    def observe(self, drawn: Sequence[int]) -> list[int]:
        """The next token of each where the model has drawn these: what follows a turn is put in."""
        return [self._next(number, token) for number, token in enumerate(drawn)]

    def _next(self, number: int, drawn: int) -> int:
        owed = self._owed[number]
        if owed:
            return owed.popleft()
        between = self._between[self._turns[number] % 2]
        if drawn == between[0]:
            owed.extend(between[1:])
            self._turns[number] += 1
        return drawn


def _parted(text: str, mark: str) -> tuple[str, str]:
    """What is before a turn, and what after it."""
    before, found, after = text.partition(mark)
    if not found:
        raise ValueError("a turn is not there as it was written")
    return before, after

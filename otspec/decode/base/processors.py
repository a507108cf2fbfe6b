"""Logits processors for drafted trees: those that keep a state are copied along each path, or refused."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import torch
from torch import nn
from transformers import (
    EpsilonLogitsWarper,
    EtaLogitsWarper,
    InfNanRemoveLogitsProcessor,
    LogitNormalization,
    LogitsProcessorList,
    MinPLogitsWarper,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from otspec.errors import ProblemError

BLIND = (
    EpsilonLogitsWarper,
    EtaLogitsWarper,
    InfNanRemoveLogitsProcessor,
    LogitNormalization,
    MinPLogitsWarper,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)
"""Processors that do not read the text."""

STEPWISE = ("xgrammar", "outlines", "llguidance")
"""Packages whose processors advance a state by the last token of every call, which a few calls need not show."""


class Followed:
    """A processor that keeps a state from call to call, along any path of a tree.

    A text is passed to a copy of the processor that was called with the text without its last token, as in decoding
    token by token; the first call, of a `fresh` one, has the prompt, whose length with its padding is `prompt`.
    """

    def __init__(self, fresh: Any, prompt: int) -> None:
        self._fresh, self._prompt = fresh, prompt
        self._after: dict[tuple[int, ...], Any] = {}
        """By row and text: the processor that was last called with the text."""

    def call(self, row: int, drafted: int, text: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """The processor's scores for a text of shape (B, S), after those for its beginnings.

        Where no token at its end is drafted, other paths of that row of the batch are forgotten.
        """
        key = (row, *text[row].tolist())
        if not drafted:
            old = self._after
            self._after = {at: old[at] for at in old if at[0] != row or at == key[:-1] or at[: len(key)] == key}
        first = min(self._prompt, len(key) - 1)
        known = next((end for end in range(len(key) - 2, first - 1, -1) if key[: end + 1] in self._after), first - 1)
        one = copied(self._after.get(key[: known + 1], self._fresh))
        for end in range(known + 1, len(key)):
            answer: torch.Tensor = one(text[:, :end], scores.clone())
        self._after[key] = one
        return answer


def copied(one: Any) -> Any:
    """A copy with a state of its own; models are shared."""
    held = getattr(one, "__dict__", {}).values()
    return copy.deepcopy(one, {id(part): part for part in held if isinstance(part, nn.Module)})


def for_trees(processors: LogitsProcessorList, input_ids: torch.Tensor, vocab: int) -> LogitsProcessorList:
    """The processors that transformers prepared for prompts, shape (B, S), fit to be called along any path of a tree.

    Functions of text and scores stay as they are, those that keep a state become `Followed`.  Whether one does shows
    when it is called again with the prompts and with one token more.

    Raises
    ------
    ProblemError
        If a processor keeps a state from call to call that cannot be copied.
    """
    return LogitsProcessorList(_for_trees(one, input_ids, vocab) for one in processors)


def _for_trees(one: Any, input_ids: torch.Tensor, vocab: int) -> Any:
    if isinstance(one, BLIND):
        return one
    try:
        fresh = copied(one)
    except Exception:
        fresh = None
    stepwise = any(base.__module__.partition(".")[0] in STEPWISE for base in type(one).__mro__)
    if not stepwise and not _keeps_state(one if fresh is None else copied(fresh), input_ids, vocab):
        return one
    if fresh is None or fresh is one or not _can_be_followed(fresh, input_ids, vocab):
        raise ProblemError(
            f"{type(one).__name__} keeps a state from call to call that copy.deepcopy does not copy, and drafted trees "
            "call it with one path after the other; pass one that can be copied, or that goes by input_ids alone"
        )
    return Followed(fresh, input_ids.shape[1])


def _keeps_state(one: Any, prompts: torch.Tensor, vocab: int) -> bool:
    """Whether a processor, called again, returns otherwise, fails, or holds another state than after its first call."""
    first, before = _answer(one, prompts, vocab), _pickled(one)
    longer = torch.cat((prompts, first.argmax(dim=-1, keepdim=True)), dim=1)  # by a token that it allows
    second = _answer(one, longer, vocab)
    try:
        again = [_answer(one, texts, vocab) for texts in (prompts, longer, prompts)]
    except Exception:
        return True
    return _pickled(one) != before or not all(map(torch.equal, again, (first, second, first)))


def _can_be_followed(fresh: Any, prompts: torch.Tensor, vocab: int) -> bool:
    """Whether copies of a processor go on from where it stood, each for itself."""
    try:
        one, other = copied(fresh), copied(fresh)
        first, same = (_answer(each, prompts, vocab) for each in (one, other))
        longer = torch.cat((prompts, first.argmax(dim=-1, keepdim=True)), dim=1)
        second, *others = (_answer(each, longer, vocab) for each in (copied(one), copied(one), one, other))
    except Exception:
        return False
    return torch.equal(first, same) and all(torch.equal(second, each) for each in others)


def _answer(one: Any, texts: torch.Tensor, vocab: int) -> torch.Tensor:
    answer: torch.Tensor = one(texts, torch.zeros(len(texts), vocab, device=texts.device))
    return answer.clone()


def _pickled(one: Any) -> bytes | None:
    try:
        return pickle.dumps(vars(one))
    except Exception:
        return None  # not known

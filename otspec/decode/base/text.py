"""Texts in the making, and when they end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import torch
from transformers import EosTokenCriteria, MaxLengthCriteria, StoppingCriteriaList

from otspec.decode.base.logprobs import TokenLogprob
from otspec.decode.base.metrics import Metrics
from otspec.errors import ProblemError
from otspec.verification.trees.topology import Topology


class Streamer(Protocol):
    """The interface of transformers' streamers."""

    def put(self, value: torch.Tensor) -> None:
        """Take new tokens."""

    def end(self) -> None:
        """Flush."""


class StepRecord(NamedTuple):
    """What one step drafted for a text, and what came of it; a text that ends within it has fewer of its tokens."""

    accepted: list[int]
    """Drafted tokens that are text now."""
    rejected: list[list[int]]
    """What else was drafted after these, path by path; nothing twice."""
    token: int
    """The target's own token after them: in place of a rejected one, or a bonus where nothing was drafted there."""

    @classmethod
    def of(cls, tree: Topology, nodes: list[int], token: int) -> StepRecord:
        """The record of a drafted tree, by the accepted nodes and the token after them."""
        lines = [tree.line(node) for node, below in enumerate(tree.children) if not below.size]
        others = [line[len(nodes) :] for line in lines if line[: len(nodes)] == nodes]
        return cls(tree.token[nodes].tolist(), [tree.token[other].tolist() for other in others if other], token)


@dataclass
class Request:
    """One sequence of the batch."""

    row: int
    """Its place in the batch."""
    padding: list[int]
    """The tokens on the left of it, up to the common length: transformers' processors and criteria read it."""
    tokens: list[int]
    """Prompt and new tokens."""
    prompt: int = field(init=False)
    """Length of the prompt."""
    blocks: list[StepRecord] | None = None
    """One for each step, where they are requested."""
    scores: list[TokenLogprob] = field(default_factory=list)
    """One for each new token, where they are requested."""
    metrics: Metrics = field(default_factory=Metrics)
    """Of its own steps; times are those of the batch."""

    def __post_init__(self) -> None:
        self.prompt = len(self.tokens)

    @property
    def new(self) -> list[int]:
        """The tokens that were added."""
        return self.tokens[self.prompt :]

    @property
    def size(self) -> int:
        """Length with the padding."""
        return len(self.padding) + len(self.tokens)

    def padded(self, more: Sequence[int] = ()) -> list[int]:
        """The text, padded on the left, with more tokens after it."""
        return [*self.padding, *self.tokens, *more]


def texts_of(input_ids: torch.Tensor, attention_mask: torch.Tensor | None, pad: int, vocab: int) -> list[Request]:
    """The prompts of a batch, wherever their padding is; of padding, what is no token of the target is `pad`.

    Raises
    ------
    ProblemError
        If one of them has no token: there is nothing to predict the first token from.
    """
    mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    texts = []
    for row, (tokens, present) in enumerate(zip(input_ids.tolist(), mask.tolist(), strict=True)):
        prompt = [token for token, one in zip(tokens, present, strict=True) if one]
        padding = [token for token, one in zip(tokens, present, strict=True) if not one]
        if not prompt:
            raise ProblemError(f"prompt {row} is empty; begin it with the tokenizer's first token (bos_token_id)")
        texts.append(Request(row, [token if 0 <= token < vocab else pad for token in padding], prompt))
    return texts


class StoppingRules:
    """transformers' stopping criteria, called after every single token.

    End-of-text tokens and lengths are checked here; all other criteria, as for stop strings, are called with the text
    up to each new token, on `device`.
    """

    def __init__(self, criteria: StoppingCriteriaList, device: torch.device) -> None:
        self.device = device
        self.eos: set[int] = set()
        self.max_length: float = float("inf")
        self.others = StoppingCriteriaList()
        for one in criteria:
            if isinstance(one, EosTokenCriteria):
                self.eos.update(one.eos_token_id.tolist())
            elif isinstance(one, MaxLengthCriteria):
                self.max_length = min(self.max_length, one.max_length)
            else:
                self.others.append(one)

    def left(self, text: Request) -> float:
        """How many tokens the text may still get."""
        return self.max_length - text.size

    def extend(self, text: Request, tokens: Sequence[int]) -> bool:
        """Add tokens until the text ends; whether it did."""
        for token in tokens:
            text.tokens.append(token)
            if token in self.eos or text.size >= self.max_length or self._stopped(text):
                return True
        return False

    def _stopped(self, text: Request) -> bool:
        if not self.others:
            return False
        ids = torch.tensor([text.padded()], device=self.device)
        return bool(self.others(ids, None).any())

"""Drafting with EAGLE's layers as they are published."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.utils.rnn import pad_sequence

from otspec.decode.drafters.eagle.drafter import EagleDrafter
from otspec.laws import IntArray


class PublishedEagleDrafter(EagleDrafter):
    """Drafts from a `PublishedEagle`, which never reads the first token of a text: nothing is thought before it.

    So a text of one token gets no drafts.
    """

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts but for their first and last tokens."""
        super().start(_behind_first(texts))

    def depth(self, lengths: IntArray) -> int:
        """As deep as the shape, or as positions last, and 0 where a text has one token."""
        return super().depth(lengths - 1) if lengths.min() > 1 else 0

    def begin_step(self, texts: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
        """As for every such model, of the texts without their first tokens: `logits` takes two tokens or more."""
        return super().begin_step(_behind_first(texts))

    def _before(self) -> torch.Tensor:
        """Of each token of a prompt but the first and the last: the features of the token before it."""
        return pad_sequence([one[:-1] for one in self._seen], True)


def _behind_first(texts: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    return [text[1:] for text in texts]

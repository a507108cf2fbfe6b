"""Drafts copied from the text: what followed the same few tokens earlier [saxena2023prompt]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn.functional import one_hot

from otspec.decode.drafters.protocol import Drafts
from otspec.decode.models.context import Pass
from otspec.laws import IntArray
from otspec.paths.shape import Shape
from otspec.paths.topology import Topology


class LookupDrafter:
    """Drafts from the text itself, one path for each text; their law is a point mass on each copied token.

    Parameters
    ----------
    length : int
        Tokens of a draft.
    ngram : int
        How many last tokens of the text are looked up; where they do not occur earlier, fewer.
    vocab : int
        The target's number of tokens.
    device : torch.device
        Where the laws are wanted.
    """

    def __init__(self, length: int, ngram: int, vocab: int, device: torch.device) -> None:
        self.length = length
        self.ngram = ngram
        self.vocab = vocab
        self.device = device

    @property
    def passes(self) -> Sequence[Pass]:
        """None."""
        return ()

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Nothing to read."""

    def depth(self, lengths: IntArray) -> int:
        """As long as asked for."""
        return self.length

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Copy; a text in which nothing is found gets no draft."""
        copies = [continuation(text, self.ngram, depth) for text in texts]
        trees = [Topology.merge(Shape((1,) * len(copy)), np.array(copy, dtype=np.int64)) for copy in copies]
        tokens = torch.tensor([token for copy in copies for token in copy], dtype=torch.int64, device=self.device)
        return Drafts(trees, one_hot(tokens, self.vocab).double(), support=1)

    def settle(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Nothing to keep."""


def continuation(text: Sequence[int], ngram: int, depth: int) -> list[int]:
    """At most `depth` tokens that followed the latest earlier occurrence of the longest ending of the text."""
    for size in range(min(ngram, len(text) - 1), 0, -1):
        ending = list(text[-size:])
        for start in range(len(text) - size - 1, -1, -1):
            if list(text[start : start + size]) == ending:
                return list(text[start + size : start + size + depth])
    return []

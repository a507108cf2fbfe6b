"""Prompt lookup: what followed the same few tokens earlier in the text is the draft [saxena2023prompt]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import one_hot

from otspec.decode.drafters.model import Drafts
from otspec.decode.sampling import Sampling
from otspec.decode.strategy import Prepared
from otspec.laws import IntArray, as_count
from otspec.paths import TokenWise
from otspec.paths.shape import Shape
from otspec.paths.topology import Topology


@dataclass(frozen=True)
class PromptLookup:
    """Drafts copied from the text, verified token by token: a token sampled from the target is kept while they agree.

    Parameters
    ----------
    depth : int
        Tokens of a draft.
    ngram : int
        How many last tokens of the text are looked up; where they do not occur earlier, fewer.
    """

    depth: int = 8
    ngram: int = 3

    def __post_init__(self) -> None:
        for name in ("depth", "ngram"):
            as_count(name, getattr(self, name))

    @property
    def lossless(self) -> bool:
        """Yes."""
        return True

    @property
    def draft(self) -> None:
        """There is no draft model."""

    def prepare(self, vocab: int, sampling: Sampling, generator: torch.Generator) -> Prepared:
        """A drafter whose law is a point mass on each copied token; to that, all lossless rules are one."""
        return Prepared(LookupDrafter(self, vocab, generator.device), TokenWise("single"))


class LookupDrafter:
    """Drafts from the text itself."""

    def __init__(self, settings: PromptLookup, vocab: int, device: torch.device) -> None:
        self.settings = settings
        self.vocab = vocab
        self.device = device

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Nothing to read."""

    def depth(self, lengths: IntArray) -> int:
        """As long as asked for."""
        return self.settings.depth

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Copy; a text in which nothing is found gets no draft."""
        copies = [continuation(text, self.settings.ngram, depth) for text in texts]
        trees = [Topology.merge(Shape((1,) * len(copy)), np.array(copy, dtype=np.int64)) for copy in copies]
        tokens = torch.tensor([token for copy in copies for token in copy], dtype=torch.int64, device=self.device)
        return Drafts(trees, one_hot(tokens, self.vocab).float())

    def settle(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Nothing to keep."""


def continuation(text: Sequence[int], ngram: int, depth: int) -> list[int]:
    """At most `depth` tokens that followed the latest earlier place where the longest ending of the text stands."""
    for size in range(min(ngram, len(text) - 1), 0, -1):
        ending = list(text[-size:])
        for start in range(len(text) - size - 1, -1, -1):
            if list(text[start : start + size]) == ending:
                return list(text[start + size : start + size + depth])
    return []

"""Prompt lookup: what followed the same few tokens earlier in the text is the draft [saxena2023prompt]."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from otspec.decode.drafters.prompt_lookup import LookupDrafter
from otspec.decode.sampling import Sampling
from otspec.decode.strategy import Prepared
from otspec.laws import as_count
from otspec.paths import TokenWise


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

    @property
    def matching(self) -> None:
        """Nor tokens of one."""

    def prepare(self, vocab: int, sampling: Sampling, generator: torch.Generator) -> Prepared:
        """A drafter whose law is a point mass on each copied token; to that, all lossless rules are one."""
        return Prepared(LookupDrafter(self.depth, self.ngram, vocab, generator.device), TokenWise("single"))

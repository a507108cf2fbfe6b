"""Prompt lookup: what followed the same few tokens earlier in the text is drafted [saxena2023prompt]."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.prompt_lookup import LookupDrafter
from otspec.decode.step.strategy import Prepared, WithoutDraftModel
from otspec.laws import as_count
from otspec.paths import Match


@dataclass(frozen=True)
class PromptLookup(WithoutDraftModel):
    """Drafts copied from the text; tokens sampled from the target are kept while they agree with one of them.

    Parameters
    ----------
    depth : int
        L, tokens of a draft.
    ngram : int
        How many last tokens of the text are looked up; where they do not occur often enough earlier, fewer.
    paths : int
        K, different drafts at most: the latest after the longest endings.  Where they begin alike they share nodes.

    Raises
    ------
    ProblemError
        If a number is no count.
    """

    depth: int = 8
    ngram: int = 3
    paths: int = 1

    def __post_init__(self) -> None:
        for name in ("depth", "ngram", "paths"):
            as_count(name, getattr(self, name))

    def prepare(self, vocab: int, sampling: Sampling, generator: torch.Generator) -> Prepared:
        """A drafter of fixed drafts."""
        return Prepared(LookupDrafter(self.paths, self.depth, self.ngram), Match())

"""Prompt lookup: what followed the same few tokens earlier in the text is drafted [saxena2023prompt]."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.drafter import Drafter
from otspec.decode.drafters.paced import PacedDrafter
from otspec.decode.drafters.prompt_lookup import LookupDrafter
from otspec.decode.pacing.goodput import Goodput, Pacer, pace_of
from otspec.decode.step.strategy import Prepared, WithoutDraftModel
from otspec.laws import as_count
from otspec.paths import Match
from otspec.verification.trees.shape import Shape


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
    pace : str or Goodput, optional
        How much each step copies, L tokens at most: see `otspec.generate`.

    Raises
    ------
    ProblemError
        If a number is no count, or there is no such pace.
    """

    depth: int = 8
    ngram: int = 3
    paths: int = 1
    pace: str | Goodput | None = None

    def __post_init__(self) -> None:
        for name in ("depth", "ngram", "paths"):
            as_count(name, getattr(self, name))
        self._pace  # noqa: B018  checks

    @cached_property
    def _pace(self) -> Goodput | None:
        """One for all runs, so that what it measures in one serves the next."""
        return pace_of(self.pace)

    def prepare(self, vocab: int, sampling: Sampling, generator: torch.Generator) -> Prepared:
        """A drafter of fixed drafts."""
        drafter: Drafter = LookupDrafter(self.paths, self.depth, self.ngram)
        if self._pace is not None:
            drafter = PacedDrafter(drafter, Pacer(self._pace, Shape.paths(self.paths, self.depth)))
        return Prepared(drafter, Match())

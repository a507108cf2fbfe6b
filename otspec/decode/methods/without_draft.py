"""Methods that draft without a draft model: nothing, copies from the text, the target's own guesses."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.drafter import NoDrafter
from otspec.decode.drafters.lookahead import LookaheadDrafter
from otspec.decode.drafters.prompt_lookup import LookupDrafter
from otspec.decode.step.strategy import Prepared, WithoutDraftModel
from otspec.errors import ProblemError
from otspec.laws import as_count
from otspec.verification import Match


@dataclass(frozen=True)
class Vanilla(WithoutDraftModel):
    """No drafts: one token a target call, drawn from the target alone."""

    def prepare(self, vocab: int, sampling: Sampling, generator: torch.Generator) -> Prepared:
        """Nothing is drafted, and what the target draws is followed."""
        return Prepared(NoDrafter(), Match())


@dataclass(frozen=True)
class PromptLookup(WithoutDraftModel):
    """Drafts copied from the text: what followed the same few tokens earlier [saxena2023prompt].

    Tokens sampled from the target are kept while they agree with one of them.

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


@dataclass(frozen=True)
class Lookahead(WithoutDraftModel):
    """Lookahead decoding: the target's own guesses behind the text are drafted later [fu2024break].

    They are n-grams from a window of Jacobi iterations, which the passes of the target carry beside the drafts.  A pass
    reads (W + K) (N - 1) rows at most besides the last token, and pays where these cost little.

    Parameters
    ----------
    paths : int
        K, n-grams drafted at once.
    width : int
        W, columns of the window.
    ngram : int
        N >= 2, tokens of an n-gram, of which the first is there already.

    Raises
    ------
    ProblemError
        If one is no count, or `ngram` is 1.
    """

    paths: int = 4
    width: int = 5
    ngram: int = 4

    def __post_init__(self) -> None:
        for name in ("paths", "width", "ngram"):
            as_count(name, getattr(self, name))
        if self.ngram < 2:
            raise ProblemError("ngram is 1; n-grams of 2 tokens or more draft what follows the first")

    def prepare(self, vocab: int, sampling: Sampling, generator: torch.Generator) -> Prepared:
        """A drafter of fixed drafts."""
        return Prepared(LookaheadDrafter(self.paths, self.width, self.ngram, generator.initial_seed()), Match())

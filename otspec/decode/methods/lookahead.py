"""Lookahead decoding: the target's own guesses behind the text are drafted later [fu2024break]."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.lookahead import LookaheadDrafter
from otspec.decode.step.strategy import Prepared, WithoutDraftModel
from otspec.errors import ProblemError
from otspec.laws import as_count
from otspec.paths import Match


@dataclass(frozen=True)
class Lookahead(WithoutDraftModel):
    """N-grams from a window of Jacobi iterations, which the target's passes carry beside the drafts.

    A pass reads (W + K) (N - 1) rows at most besides the last token, and pays where these cost little.

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

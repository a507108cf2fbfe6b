"""Suffix decoding: what followed the ending of the text most often is drafted [oliaro2024suffix]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from otspec.decode.base.sampling import Sampling
from otspec.decode.base.streams import Randomness
from otspec.decode.drafters.suffix import SuffixDrafter
from otspec.decode.step.strategy import Prepared, WithoutDraftModel
from otspec.extras import require
from otspec.laws import as_count
from otspec.paths import Match


@dataclass(frozen=True)
class Suffix(WithoutDraftModel):
    """Drafts by counts of `arctic-inference`; tokens sampled from the target are kept while they agree with one.

    How many tokens are drafted it says itself: no more than the ending that it found before has, and none of an
    estimated probability below 0.1.

    Parameters
    ----------
    depth : int
        L, tokens of a path at most.
    paths : int
        With 1 a path, with more a tree of K L tokens at most.
    memory : SuffixDecodingCache, optional
        What remembers the texts of earlier runs; by default those of a batch learn from each other, and no others.
        One run at a time may use it.

    Raises
    ------
    ProblemError
        If depth or paths is no count.
    MissingExtra
        If `arctic-inference` is not installed.
    """

    depth: int = 8
    paths: int = 1
    memory: Any = None

    def __post_init__(self) -> None:
        for name in ("depth", "paths"):
            as_count(name, getattr(self, name))
        require("arctic_inference.suffix_decoding")

    def prepare(self, vocab: int, sampling: Sampling, generator: Randomness) -> Prepared:
        """A drafter of fixed drafts."""
        memory = self.memory
        if memory is None:
            memory = require("arctic_inference.suffix_decoding").SuffixDecodingCache()
        return Prepared(SuffixDrafter(self.paths, self.depth, memory), Match())

"""Drafts of any of transformers' candidate generators, verified by our rules."""

from __future__ import annotations

from dataclasses import dataclass

from otspec.decode.base.sampling import Sampling
from otspec.decode.base.streams import Randomness
from otspec.decode.drafters.candidates import CandidateDrafter, Make
from otspec.decode.step.strategy import Prepared, WithoutDraftModel
from otspec.laws import as_count
from otspec.paths import Block


@dataclass(frozen=True)
class Candidates(WithoutDraftModel):
    """One path, by block verification where its law is known, and as a fixed draft elsewhere; one text at a time.

    Parameters
    ----------
    make : callable
        From the prompt, shape (1, S), to a `transformers.generation.candidate_generator.CandidateGenerator`: prompt
        lookup, an assistant, early exit, an assistant with another tokenizer.  Ones that need the target's hidden
        states are not served.
    depth : int
        L, tokens of a draft at most; a generator may have a limit of its own.

    Raises
    ------
    ProblemError
        If depth is no count.
    """

    make: Make
    depth: int = 8

    def __post_init__(self) -> None:
        as_count("depth", self.depth)

    def prepare(self, vocab: int, sampling: Sampling, generator: Randomness) -> Prepared:
        """A drafter that makes its generator when it reads the prompt."""
        return Prepared(CandidateDrafter(self.make, self.depth, vocab, generator), Block())

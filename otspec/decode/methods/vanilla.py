"""Sampling token by token from the target alone."""

from __future__ import annotations

from dataclasses import dataclass

from otspec.decode.base.sampling import Sampling
from otspec.decode.base.streams import Randomness
from otspec.decode.drafters.drafter import NoDrafter
from otspec.decode.step.strategy import Prepared, WithoutDraftModel
from otspec.paths import Match


@dataclass(frozen=True)
class Vanilla(WithoutDraftModel):
    """No drafts: one token a target call."""

    def prepare(self, vocab: int, sampling: Sampling, generator: Randomness) -> Prepared:
        """Nothing is drafted, and what the target draws is followed."""
        return Prepared(NoDrafter(), Match())

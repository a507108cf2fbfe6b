"""Sampling token by token from the target alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.drafter import NoDrafter
from otspec.decode.step.strategy import Prepared, WithoutDraftModel
from otspec.paths import Match


@dataclass(frozen=True)
class Vanilla(WithoutDraftModel):
    """No drafts: one token a target call."""

    def prepare(self, vocab: int, sampling: Sampling, generator: torch.Generator) -> Prepared:
        """Nothing is drafted, and what the target draws is followed."""
        return Prepared(NoDrafter(), Match())

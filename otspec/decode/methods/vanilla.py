"""Sampling token by token from the target alone."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from otspec.decode.sampling import Sampling
from otspec.decode.strategy import Prepared
from otspec.paths import Block


@dataclass(frozen=True)
class Vanilla:
    """No drafts: one token a target call."""

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
        """No drafter; no verifier is ever asked."""
        return Prepared(None, Block())

"""What a drafter answers: trees of tokens, and the laws that they were drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from otspec.laws import IntArray
from otspec.paths.topology import Topology


@dataclass(frozen=True, eq=False)
class Drafts:
    """What was drafted for a batch of texts."""

    trees: Sequence[Topology]
    laws: torch.Tensor
    """Shape (R, V), float64, on the device: draft laws at the inner nodes of all trees, one tree after the other."""
    support: int | None = None
    """How many tokens a law is expected to keep at most; None for all."""


class Drafter(Protocol):
    """Something that proposes how texts go on."""

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts."""

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft at most `depth` >= 1 tokens a path, after each of the texts."""

    def depth(self, lengths: IntArray) -> int:
        """How many tokens a path may have after texts of these lengths; 0 if no draft is to be made."""

    def settle(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """What became of the drafts: the slots of each text's accepted tokens, and which texts go on."""

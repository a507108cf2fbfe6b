"""What a pass takes and what it returns: both are arguments and results, so that a graph has them too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch

from otspec.decode.models.passes.cache import KVBlock


class Conditioning(NamedTuple):
    """What a draft model receives of its target in one pass; with nothing, a model is the decoder itself."""

    shifts: torch.Tensor | None = None
    """What is added in every layer of a `Steered` model, shape (layers, B, N or 1, added)."""
    added: torch.Tensor | None = None
    """What an `Eagle` model reads beside the embeddings, shape (B, N, hidden)."""


UNCONDITIONED = Conditioning()


class Inputs(NamedTuple):
    """A block of new tokens, and all else that a pass over it depends on."""

    tokens: torch.Tensor
    """Shape (B, N); the block becomes columns `start` and on of the cache."""
    position: torch.Tensor
    """Shape (B, N)."""
    mask: torch.Tensor | None = None
    """Added to the scores, shape (B or 1, 1, N, start + N); None where every token of the block attends to all columns
    before it and to all of the block."""
    start: int = 0
    keep: int = 1
    """After how many of the last tokens logits are wanted."""
    conditioning: Conditioning = UNCONDITIONED
    present: torch.Tensor | None = None
    """Of texts that are read from their starts, which have no mask: where there is text, shape (B, N), padded on the
    right; every token attends to those before it and to itself."""


class Outputs(NamedTuple):
    """What a pass returns."""

    logits: torch.Tensor
    """Shape (B, keep, V), of the last tokens of a block."""
    features: torch.Tensor | None = None
    """Hidden states, shape (B, N, layers, width), after the requested layers; None where none were.

    Those after all layers are normalised, as the head gets them.
    """

    @property
    def states(self) -> torch.Tensor:
        """The features of a pass that returns some, shape (B, N, layers, width)."""
        assert self.features is not None
        return self.features


class Reader(Protocol):
    """A model with a cache of its own: all else that a pass depends on is an argument, and all results are returned."""

    def read(self, inputs: Inputs) -> Outputs:
        """Read a block."""

    @property
    def blocks(self) -> Sequence[KVBlock]:
        """All of the cache."""

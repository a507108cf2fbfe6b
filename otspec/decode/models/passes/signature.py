"""What a pass takes beside tokens, and what it gives: both are arguments and results, so that a graph has them too."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Conditioning(NamedTuple):
    """What a draft model is told of its target in one pass; a model that is told nothing is the decoder itself."""

    shifts: torch.Tensor | None = None
    """What is added in every layer of a `Steered` model, shape (layers, B, N or 1, added)."""
    added: torch.Tensor | None = None
    """What is added to the embeddings of an `Eagle` model, shape (B, N, hidden)."""


UNCONDITIONED = Conditioning()


class Outputs(NamedTuple):
    """What a pass gives."""

    logits: torch.Tensor
    """Shape (B, keep, V), of the last tokens of a block."""
    features: torch.Tensor | None = None
    """Hidden states, shape (B, N, layers, width), after as many layers as was asked for; None where none were.

    Those after all layers are normalised, as the head gets them.
    """

    @property
    def states(self) -> torch.Tensor:
        """The features of a pass that was asked for some, shape (B, N, layers, width)."""
        assert self.features is not None
        return self.features

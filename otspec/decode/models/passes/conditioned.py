"""Marks of this package's own modules, by which forward passes know them without importing the drafters' models."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from transformers import PreTrainedModel

from otspec.laws import IntArray


class OtspecModule:
    """A module of this package whose class says all that it computes, as those of transformers' architectures do."""


class Conditioned(OtspecModule):
    """A model that may be told more than tokens, by `otspec.decode.models.passes.signature.Conditioning`.

    Told nothing it computes what the decoder of the same weights does.
    """

    get_input_embeddings: Any

    @property
    def is_lean(self) -> bool:
        """Whether what it is told is added to its vectors or its up-projections, and all else is the decoder."""
        return True

    def vectors(self, tokens: torch.Tensor) -> torch.Tensor:
        """What the decoder begins with of tokens, shape (..., hidden), but for what is added to it."""
        vectors: torch.Tensor = self.get_input_embeddings()(tokens)
        return vectors


class DraftVocabMixin:
    """A draft model whose head may have rows of some of its target's tokens only."""

    config: Any
    tokens: torch.Tensor
    """Shape (k,), a buffer."""

    @property
    def kept(self) -> IntArray | None:
        """The target's token of each row of the head, shape (k,); None where it has all."""
        if not self.config.kept:
            return None
        kept: IntArray = self.tokens.cpu().numpy().astype("int64")
        return kept


@runtime_checkable
class Borrower(Protocol):
    """A draft model that has some of its parts from its target."""

    def borrow(self, target: PreTrainedModel) -> None:
        """Take them; nothing is done where they are there.

        Raises
        ------
        ProblemError
            If it belongs to another target.
        """

"""Marks of this package's own modules, by which forward passes know them without importing the drafters' models."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn
from transformers import PreTrainedModel

from otspec.laws import IntArray


class OtspecModule:
    """A module of this package whose class defines all that it computes, as those of transformers' architectures do."""


class Conditioned(OtspecModule):
    """A model that may take more than tokens, by `otspec.decode.models.passes.signature.Conditioning`.

    Without conditioning it computes what the decoder of the same weights does.
    """

    get_input_embeddings: Any
    model: Any

    @property
    def is_lean(self) -> bool:
        """Whether all that it computes besides a decoder's layers are the methods here, and shifts of these layers."""
        return True

    def begin(self, tokens: torch.Tensor, added: torch.Tensor | None) -> torch.Tensor:
        """What goes into the first layer, shape (..., hidden), and twice as wide where that reads two vectors.

        Parameters
        ----------
        tokens : Tensor of int, shape (...)
        added : Tensor, shape (..., hidden), optional
            What is read beside them.
        """
        vectors = self.vectors(tokens)
        return vectors if added is None else vectors + added

    def vectors(self, tokens: torch.Tensor) -> torch.Tensor:
        """The vectors of tokens, shape (..., hidden)."""
        vectors: torch.Tensor = self.get_input_embeddings()(tokens)
        return vectors

    @property
    def last_norm(self) -> nn.Module:
        """What the head reads the last layer's outputs through; without weights it is none."""
        norm: nn.Module = self.model.norm
        return norm

    @property
    def gives_normed(self) -> bool:
        """Whether hidden states after all layers are those behind the last norm, as a decoder's are."""
        return True


class DraftVocabMixin:
    """A draft model whose head may have rows of some of its target's tokens only."""

    config: Any
    tokens: torch.Tensor
    """Shape (k,), a buffer."""

    @property
    def draft_tokens(self) -> IntArray | None:
        """The target's token of each row of the head, shape (k,); None where it has all."""
        if not self.config.draft_vocab_size:
            return None
        draft_tokens: IntArray = self.tokens.cpu().numpy().astype("int64")
        return draft_tokens


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

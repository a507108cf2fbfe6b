"""One pass of a model over new tokens: by transformers' own code, or by a leaner one that gives the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from transformers import Cache, PreTrainedModel

from otspec.decode.models.cache import Block, InPlaceLayer
from otspec.decode.models.llama import LlamaReader


class Reader(Protocol):
    """A model with a cache of its own."""

    def begin(self, tokens: torch.Tensor, present: torch.Tensor, position: torch.Tensor) -> None:
        """Read texts from their starts, shapes (B, S), padded on the right where `present` is False."""

    def read(
        self, tokens: torch.Tensor, position: torch.Tensor, mask: torch.Tensor | None, start: int, keep: int
    ) -> torch.Tensor:
        """Logits of the last tokens of a block, shape (B, keep, V); the block becomes columns `start` and on.

        Parameters
        ----------
        tokens, position : Tensor of int, shape (B, N)
        mask : Tensor, shape (B or 1, 1, N, start + N), optional
            Added to the scores; None where every token of the block attends to all columns before it and to all of
            the block.
        start, keep : int
        """

    @property
    def blocks(self) -> Sequence[Block]:
        """All of the cache."""

    @property
    def features(self) -> torch.Tensor:
        """Hidden states of what was read last, shape (B, N, layers, width): after as many layers as was asked for.

        Those after all layers are normalised, as the head gets them.
        """

    shifts: torch.Tensor | None
    """What is added in every layer of a `SteeredLlama` from now on, shape (layers, B, N or 1, added)."""
    added: torch.Tensor | None
    """What is added to the embeddings of a `FedLlama` in the next pass, shape (B, N, hidden)."""


class TransformersReader:
    """The model's own forward pass."""

    shifts: torch.Tensor | None = None
    added: torch.Tensor | None = None

    def __init__(self, model: PreTrainedModel, layers: Sequence[int] = ()) -> None:
        self.model = model
        self.layers = layers
        self.cache = Cache(layer_class_to_replicate=InPlaceLayer)

    def begin(self, tokens: torch.Tensor, present: torch.Tensor, position: torch.Tensor) -> None:
        """Read texts from their starts; the model makes the causal mask itself."""
        self._forward(tokens, present.long(), position, 1)

    def read(
        self, tokens: torch.Tensor, position: torch.Tensor, mask: torch.Tensor | None, start: int, keep: int
    ) -> torch.Tensor:
        """As `Reader.read`; the model is always told a mask, lest it make one."""
        for layer in self.cache.layers:
            layer.used = start
        if mask is None:
            columns = start + tokens.shape[1]
            mask = torch.zeros(1, 1, tokens.shape[1], columns, dtype=self.model.dtype, device=self.model.device)
        return self._forward(tokens, mask, position, keep)

    def _forward(self, tokens: torch.Tensor, mask: torch.Tensor, position: torch.Tensor, keep: int) -> torch.Tensor:
        found = self.model(
            input_ids=tokens,
            attention_mask=mask,
            position_ids=position,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=keep,
            **({"output_hidden_states": True} if self.layers else {}),
            **({} if self.shifts is None else {"shifts": self.shifts}),
            **({} if self.added is None else {"added": self.added}),
        )
        if self.layers:
            self.features = torch.stack([found.hidden_states[layer] for layer in self.layers], dim=2)
        logits: torch.Tensor = found.logits
        return logits

    @property
    def blocks(self) -> Sequence[Block]:
        """Two for every layer that has been written to; some models have layers that share."""
        return [block for layer in self.cache.layers for block in layer.blocks]


def reader_of(model: PreTrainedModel, layers: Sequence[int] = ()) -> Reader:
    """The leanest reader that gives the model's own logits to the last bit, and hidden states after these layers."""
    return LlamaReader(model, layers) if LlamaReader.takes(model) else TransformersReader(model, layers)

"""A pass by transformers' own code, over a cache that is written in place."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import Cache, PreTrainedModel

from otspec.decode.models.passes.cache import Block, InPlaceLayer


class TransformersReader:
    """The model's own forward pass, as `otspec.decode.models.passes.reader.Reader` describes it."""

    shifts: torch.Tensor | None = None
    added: torch.Tensor | None = None

    def __init__(self, model: PreTrainedModel, layers: Sequence[int] = ()) -> None:
        self.model = model
        self.layers = layers
        self.cache = Cache(layer_class_to_replicate=InPlaceLayer)

    def begin(
        self, tokens: torch.Tensor, present: torch.Tensor, position: torch.Tensor, *, keep: int = 1
    ) -> torch.Tensor:
        """As `Reader.begin`, shapes (B, S); the model makes the causal mask itself."""
        return self.forward(tokens, present.long(), position, keep)

    def read(
        self, tokens: torch.Tensor, position: torch.Tensor, mask: torch.Tensor | None, start: int, keep: int
    ) -> torch.Tensor:
        """As `Reader.read`, shapes (B, N); the model is always told a mask, lest it make one."""
        for layer in self.cache.layers:
            layer.used = start
        if mask is None:
            columns = start + tokens.shape[1]
            mask = torch.zeros(1, 1, tokens.shape[1], columns, dtype=self.model.dtype, device=self.model.device)
        return self.forward(tokens, mask, position, keep)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor, position: torch.Tensor, keep: int) -> torch.Tensor:
        """Logits of the last tokens, shape (B, keep, V); the cache knows where the block goes."""
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

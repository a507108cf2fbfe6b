"""A pass by transformers' own code, over a cache that is written in place."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import Cache, PreTrainedModel

from otspec.decode.models.passes.cache import Block, InPlaceLayer
from otspec.decode.models.passes.signature import UNCONDITIONED, Conditioning, Outputs


class TransformersReader:
    """The model's own forward pass, as `otspec.decode.models.passes.reader.Reader` describes it."""

    def __init__(self, model: PreTrainedModel, layers: Sequence[int] = ()) -> None:
        self.model = model
        self.layers = layers
        self.cache = Cache(layer_class_to_replicate=InPlaceLayer)

    def begin(
        self,
        tokens: torch.Tensor,
        present: torch.Tensor,
        position: torch.Tensor,
        *,
        keep: int = 1,
        conditioning: Conditioning = UNCONDITIONED,
    ) -> Outputs:
        """As `Reader.begin`, shapes (B, S); the model makes the causal mask itself."""
        return self.forward(tokens, present.long(), position, keep, conditioning)

    def read(
        self,
        tokens: torch.Tensor,
        position: torch.Tensor,
        mask: torch.Tensor | None,
        start: int,
        keep: int,
        conditioning: Conditioning = UNCONDITIONED,
    ) -> Outputs:
        """As `Reader.read`, shapes (B, N); the model is always told a mask, lest it make one."""
        for layer in self.cache.layers:
            layer.used = start
        if mask is None:
            columns = start + tokens.shape[1]
            mask = torch.zeros(1, 1, tokens.shape[1], columns, dtype=self.model.dtype, device=self.model.device)
        return self.forward(tokens, mask, position, keep, conditioning)

    def forward(
        self,
        tokens: torch.Tensor,
        mask: torch.Tensor,
        position: torch.Tensor,
        keep: int,
        conditioning: Conditioning = UNCONDITIONED,
    ) -> Outputs:
        """As `Reader.read`, shapes (B, N); the cache knows where the block goes."""
        found = self.model(
            input_ids=tokens,
            attention_mask=mask,
            position_ids=position,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=keep,
            **({"output_hidden_states": True} if self.layers else {}),
            **{name: one for name, one in conditioning._asdict().items() if one is not None},
        )
        states = torch.stack([found.hidden_states[layer] for layer in self.layers], dim=2) if self.layers else None
        return Outputs(found.logits, states)

    @property
    def blocks(self) -> Sequence[Block]:
        """Two for every layer that has been written to; some models have layers that share."""
        return [block for layer in self.cache.layers for block in layer.blocks]

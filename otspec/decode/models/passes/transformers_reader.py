"""A pass by transformers' own code, over a cache that is written in place."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import Cache, PreTrainedModel

from otspec.decode.models.passes.cache import InPlaceLayer, KVBlock
from otspec.decode.models.passes.signature import Inputs, Outputs


class TransformersReader:
    """The model's own forward pass, as `otspec.decode.models.passes.signature.Reader` describes it."""

    def __init__(self, model: PreTrainedModel, layers: Sequence[int] = ()) -> None:
        self.model = model
        self.layers = layers
        self.cache = Cache(layer_class_to_replicate=InPlaceLayer)

    def read(self, inputs: Inputs) -> Outputs:
        """As `Reader.read`; the model makes the causal mask of texts itself; else it gets one, lest it make one."""
        tokens, mask = inputs.tokens, inputs.mask
        for layer in self.cache.layers:
            layer.used = inputs.start
        if inputs.present is not None:
            mask = inputs.present.long()
        elif mask is None:
            shape = (1, 1, tokens.shape[1], inputs.start + tokens.shape[1])
            mask = torch.zeros(shape, dtype=self.model.dtype, device=self.model.device)
        return self.forward(inputs._replace(mask=mask))

    def forward(self, inputs: Inputs) -> Outputs:
        """The same with a mask, where the cache knows already where the block goes."""
        found = self.model(
            input_ids=inputs.tokens,
            attention_mask=inputs.mask,
            position_ids=inputs.position,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=inputs.keep,
            **({"output_hidden_states": True} if self.layers else {}),
            **{name: one for name, one in inputs.conditioning._asdict().items() if one is not None},
        )
        states = torch.stack([found.hidden_states[layer] for layer in self.layers], dim=2) if self.layers else None
        return Outputs(found.logits, states)

    @property
    def blocks(self) -> Sequence[KVBlock]:
        """Two for every layer that has been written to; some models have layers that share."""
        return [block for layer in self.cache.layers for block in layer.blocks]

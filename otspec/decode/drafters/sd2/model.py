"""Draft models that the target steers: its hidden states are added to every layer's up-projection [berdozsteering].

The target's hidden states h, m, l after three of its layers, at the last token that it has read, make a steering vector
g = W_hml [h, m, l].  In every layer of the draft model W_s g is added to the up-projection of the SwiGLU, eq. (2).  At
first W_s is 0, which leaves the draft model as it is, and g = h + m + l.  Other than in the paper, h, m and l are
scaled to one size before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.models.llama.modeling_llama import LlamaMLP

from otspec.decode.drafters.hidden_states import configuration_of, to_one_size
from otspec.decode.models.passes.conditioned import ConditionedLlama, OwnModule
from otspec.errors import ProblemError

PLACES = ("up", "after")
"""Where W_s g is added: to the up-projection, or, which is worse, to what the MLP gives."""


class SteeredConfig(LlamaConfig):  # type: ignore[misc]  # transformers is untyped here
    """Of a `SteeredLlama`.

    Parameters
    ----------
    features : sequence of int
        After how many of the target's layers its hidden states are looked at: low, middle, high.
    feature_width : int
        Their width.
    place : str
        One of `PLACES`.
    **config
        Of the Llama.
    """

    model_type = "otspec_steered_llama"

    def __init__(self, features: Sequence[int] = (), feature_width: int = 0, place: str = "up", **config: Any) -> None:
        super().__init__(**config)
        self.features = list(features)
        self.feature_width = feature_width
        self.place = place


class SteeredMLP(OwnModule, LlamaMLP):  # type: ignore[misc]
    """A SwiGLU with something added."""

    place = "up"
    shift: torch.Tensor | None = None
    """W_s g, shape (B, N, width of the place), or broadcast to it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Eq. (2) [berdozsteering]; eq. (1) without a shift."""
        up = self.up_proj(x)
        if self.shift is not None and self.place == "up":
            up = up + self.shift
        down: torch.Tensor = self.down_proj(self.act_fn(self.gate_proj(x)) * up)
        return down + self.shift if self.shift is not None and self.place == "after" else down


class Steering(OwnModule, nn.Module):
    """From the target's hidden states to what is added in each layer."""

    hml: nn.Linear
    layers: nn.ModuleList

    def __init__(self, config: SteeredConfig) -> None:
        super().__init__()
        width, inputs = config.feature_width, config.feature_width * len(config.features)
        added = config.intermediate_size if config.place == "up" else config.hidden_size
        self.hml = nn.Linear(inputs, width, bias=False)
        self.layers = nn.ModuleList(nn.Linear(width, added, bias=False) for _ in range(config.num_hidden_layers))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """W_s W_hml [h, m, l] of every layer, shape (layers, ..., added), from features of shape (..., 3, width)."""
        steering = self.hml(features.flatten(-2))
        return torch.stack([layer(steering) for layer in self.layers])

    @torch.no_grad()
    def begin(self) -> None:
        """Set g = h + m + l and W_s = 0."""
        width = self.hml.out_features
        self.hml.weight.copy_(torch.eye(width).repeat(1, self.hml.in_features // width))
        for weights in self.layers.parameters():
            weights.zero_()


class SteeredLlama(ConditionedLlama, LlamaForCausalLM):  # type: ignore[misc]
    """A Llama whose MLPs take a shift; without one it is the Llama of the same weights, to the last bit."""

    config_class = SteeredConfig

    def __init__(self, config: SteeredConfig) -> None:
        if config.place not in PLACES:
            raise ProblemError(f"place is {config.place!r}; known: {', '.join(PLACES)}")
        super().__init__(config)
        for layer in self.model.layers:
            layer.mlp.__class__ = SteeredMLP
            layer.mlp.place = config.place
        self.steering = Steering(config)

    @classmethod
    def of(cls, draft: LlamaForCausalLM, features: Sequence[int], width: int, place: str = "up") -> SteeredLlama:
        """A copy of a draft model with steering that does nothing yet.

        Parameters
        ----------
        draft : LlamaForCausalLM
        features : sequence of int
            After how many of the target's layers its hidden states are looked at.
        width : int
            Their width.
        place : str
            One of `PLACES`.

        Raises
        ------
        ProblemError
            If the model is no Llama.
        """
        model = cls(SteeredConfig(features, width, place, **configuration_of(draft))).to(draft.device, draft.dtype)
        model.load_state_dict(draft.state_dict(), strict=False)
        model.steering.begin()
        return model.train(draft.training)

    def shifts(self, features: torch.Tensor) -> torch.Tensor:
        """What the target's hidden states add to every layer, shape (layers, ..., added).

        Parameters
        ----------
        features : Tensor, shape (..., len(features), feature_width)
            0 for what the target has not read.
        """
        shifts: torch.Tensor = self.steering(to_one_size(features).to(self.dtype))
        return shifts

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past_key_values: Any = None,
        logits_to_keep: int | torch.Tensor = 0,
        shifts: torch.Tensor | None = None,
        **settings: Any,
    ) -> CausalLMOutputWithPast:
        """As a Llama, with shifts as of `shifts` of shape (layers, B, N, added), or broadcast to it."""
        mlps = [layer.mlp for layer in self.model.layers]
        try:
            if shifts is not None:
                for mlp, shift in zip(mlps, shifts, strict=True):
                    mlp.shift = shift
            return super().forward(
                input_ids=input_ids,
                attention_mask=attention_mask,
                position_ids=position_ids,
                past_key_values=past_key_values,
                logits_to_keep=logits_to_keep,
                **settings,
            )
        finally:
            for mlp in mlps:
                mlp.shift = None


AutoConfig.register(SteeredConfig.model_type, SteeredConfig)
AutoModelForCausalLM.register(SteeredConfig, SteeredLlama)

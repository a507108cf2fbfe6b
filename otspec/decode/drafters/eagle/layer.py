"""A layer for any target, between its embedding and its head: what it has of the target's, and EAGLE-3's first one.

Where the target is made as a Llama is, the layer is one of its own; elsewhere it is that of a Llama of the same width,
as EAGLE has it for every architecture [li2024eagle].
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from otspec.decode.drafters.decoders import layers_of
from otspec.decode.drafters.hidden_states import head_of
from otspec.decode.models.context import vocabulary
from otspec.decode.models.head import SOFT_CAP
from otspec.decode.models.passes.conditioned import OtspecModule
from otspec.decode.models.passes.fused import ALIKE

TAKEN_OVER = (
    *("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim"),
    *("max_position_embeddings", "initializer_range", "bos_token_id", "eos_token_id"),
)
"""Settings that a layer has from the target's configuration."""

OF_A_LLAMA = ("hidden_act", "rms_norm_eps", "rope_parameters")
"""What it has besides where the target is made as a Llama is."""

LARGE = 2.0**20
"""Beside the square of which no epsilon of a norm counts, and by which the norm divides exactly."""


def layer_settings(target: PreTrainedModel, *, shared: bool, own_head: bool) -> dict[str, Any]:
    """The settings of a layer for a target that are the target's own.

    Parameters
    ----------
    target : PreTrainedModel
    shared : bool
        Whether its last norm and its activation are those of the target, and not a Llama's.
    own_head : bool
        Whether it has a head of its own.

    Raises
    ------
    ProblemError
        If the target's head is to be shared, and cannot be had apart from the rest or scales its logits.
    """
    config = target.config.get_text_config()
    names = (*TAKEN_OVER, *(OF_A_LLAMA if type(target) in ALIKE else ()))
    settings = {name: value for name in names if (value := getattr(config, name, None)) is not None}
    settings = {"intermediate_size": 4 * settings["hidden_size"]} | settings  # which GPT-2 leaves out
    settings |= {"vocab_size": vocabulary(target), "num_hidden_layers": 1, "pad_token_id": None}
    if not own_head:
        settings[SOFT_CAP] = head_of(target, in_place=True).cap
    if not shared:
        return settings | {"hidden_act": "silu"}
    norm = last_norm(target)
    return settings | {"layer_norm": norm is not None and _is_layer_norm(norm, settings["hidden_size"])}


def last_norm(target: PreTrainedModel) -> nn.Module | None:
    """The norm behind a target's layers, if there is one."""
    layers = layers_of(target)
    [beside] = [list(module.children()) for module in target.modules() if layers in module.children()]
    behind = beside[beside.index(layers) :]
    return next((module for module in behind if "norm" in type(module).__name__.lower()), None)


@torch.no_grad()
def begin_norm(own: Any, target: PreTrainedModel) -> None:
    """Set the weights of a norm, and its bias, to what a target's last norm does, if it has one.

    Some architectures hold their weights less 1, and some hold none; so the norm is called with numbers of one size
    whose mean is 0, and with their opposite.
    """
    norm = last_norm(target)
    if norm is None:
        return
    sign = torch.ones(len(own.weight), dtype=torch.float64)
    sign[1::2] = -1.0
    this, that = _of(norm, sign), _of(norm, -sign)
    own.weight.copy_((this - that) / 2 * sign)
    if getattr(own, "bias", None) is not None:
        own.bias.copy_((this + that) / 2)


def _is_layer_norm(norm: nn.Module, width: int) -> bool:
    """Whether it takes the mean off: it then returns the same for any constant."""
    one = torch.ones(width, dtype=torch.float64)
    return torch.equal(_of(norm, one), _of(norm, -one))


@torch.no_grad()
def _of(norm: nn.Module, sign: torch.Tensor) -> torch.Tensor:
    """What it makes of large numbers with these signs."""
    found: torch.Tensor = copy.deepcopy(norm).to("cpu", torch.float64)(LARGE * sign)
    return found


class WideLayer(OtspecModule, nn.Module):
    """The first layer of EAGLE-3: its attention reads a token and a hidden state, side by side.

    Parameters
    ----------
    layer : Module
        A layer of the family that it is of.
    width : int
        Of both.
    eps : float
        Of its norms.
    norm_before_residual : bool
        Whether what goes around the attention is normed.
    """

    def __init__(self, layer: Any, width: int, eps: float, norm_before_residual: bool) -> None:
        super().__init__()
        self.self_attn, self.mlp = layer.self_attn, layer.mlp
        self.input_layernorm, self.post_attention_layernorm = layer.input_layernorm, layer.post_attention_layernorm
        self.hidden_norm = type(layer.input_layernorm)(width, eps)
        self.norm_before_residual = norm_before_residual
        for name in ("q_proj", "k_proj", "v_proj"):
            narrow = getattr(self.self_attn, name)
            setattr(self.self_attn, name, nn.Linear(2 * width, narrow.out_features, narrow.bias is not None))

    def forward(self, hidden_states: torch.Tensor, **inputs: Any) -> torch.Tensor:
        """What it makes of tokens and hidden states, shape (B, N, width), from (B, N, 2 width)."""
        token, hidden = hidden_states.chunk(2, dim=-1)
        normed = self.hidden_norm(hidden)
        attended, _ = self.self_attn(hidden_states=torch.cat((self.input_layernorm(token), normed), dim=-1), **inputs)
        hidden = attended + (normed if self.norm_before_residual else hidden)
        found: torch.Tensor = hidden + self.mlp(self.post_attention_layernorm(hidden))
        return found

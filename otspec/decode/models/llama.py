"""A lean forward pass for Llamas on a CPU: at a few million parameters, transformers' costs as much as the arithmetic.

The same operations on the same numbers as in transformers, so the same bits: what is left out are modules, hooks,
keywords, and copies of the cache.  Angles of positions are looked up, and a rotation by halves is a roll whose signs
are in the sines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import embedding, linear, rms_norm, scaled_dot_product_attention, silu
from transformers import LlamaForCausalLM, MistralForCausalLM, PreTrainedModel, Qwen2ForCausalLM

from otspec.decode.models.cache import Block
from otspec.decode.models.fed import FedLlama
from otspec.decode.models.steered import SteeredLlama, SteeredMLP, Steering

ALIKE = (LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, SteeredLlama, FedLlama)
"""Classes that compute this, up to biases and to masks, which are ours."""

FIXED_ANGLES = ("default", "linear", "llama3")
"""Kinds of rotary positions whose angles do not depend on the length of the text."""

Linear = tuple[torch.Tensor, torch.Tensor | None]
"""Weight and bias."""


class Layer(NamedTuple):
    """The weights of a layer, of which nothing is copied."""

    before_attention: torch.Tensor
    query: Linear
    key: Linear
    value: Linear
    out: Linear
    before_mlp: torch.Tensor
    gate: Linear
    up: Linear
    down: Linear

    @classmethod
    def of(cls, layer: Any) -> Layer:
        """The weights of a module."""
        attention, mlp = layer.self_attn, layer.mlp
        projections = (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj)
        query, key, value, out, gate, up, down = (
            (module.weight, module.bias) for module in (*projections, mlp.gate_proj, mlp.up_proj, mlp.down_proj)
        )
        norms = layer.input_layernorm.weight, layer.post_attention_layernorm.weight
        return cls(norms[0], query, key, value, out, norms[1], gate, up, down)


class LlamaReader:
    """A reader, as `otspec.decode.models.reader.Reader` describes it.

    Parameters
    ----------
    model : PreTrainedModel
        One that `takes` says yes to.
    layers : sequence of int
        After how many layers hidden states are to be kept.
    """

    features: torch.Tensor
    shifts: torch.Tensor | None = None
    added: torch.Tensor | None = None

    def __init__(self, model: PreTrainedModel, layers: Sequence[int] = ()) -> None:
        config: Any = model.config
        self._layers = [Layer.of(layer) for layer in model.model.layers]
        self._embedding, self._norm = model.model.embed_tokens.weight, model.model.norm.weight
        token = getattr(model, "token", None)  # of a `FedLlama` that drafts features
        self._token: Linear | None = None if token is None else (token.weight, token.bias)
        self._head = None if isinstance(model.lm_head, nn.Identity) else model.lm_head.weight
        self._epsilon = float(config.rms_norm_eps)
        self._heads, self._key_heads = config.num_attention_heads, config.num_key_value_heads
        self._size = model.model.layers[0].self_attn.head_dim
        self._rotary = model.model.rotary_emb
        self._wanted = layers
        self._block: Block | None = None
        self._cosine = self._sine = torch.empty(0, self._size)

    @staticmethod
    def takes(model: PreTrainedModel) -> bool:
        """Whether the model computes this and nothing else: no hooks, adapters or quantised layers, in float32."""
        if type(model) not in ALIKE or model.dtype != torch.float32 or model.device.type != "cpu" or model.training:
            return False
        config: Any = model.config
        return (
            config._attn_implementation == "sdpa"
            and config.hidden_act == "silu"
            and config.rope_parameters["rope_type"] in FIXED_ANGLES
            and getattr(config, "place", "up") == "up"
            and all(_is_plain(module) for module in model.modules())
        )

    def begin(
        self, tokens: torch.Tensor, present: torch.Tensor, position: torch.Tensor, *, keep: int = 1
    ) -> torch.Tensor:
        """Read texts from their starts: padding on the right is seen by no token of a text."""
        return self._read(tokens, position, None, 0, keep, causal=True)

    def read(
        self, tokens: torch.Tensor, position: torch.Tensor, mask: torch.Tensor | None, start: int, keep: int
    ) -> torch.Tensor:
        """As `Reader.read`."""
        return self._read(tokens, position, mask, start, keep)

    def _read(
        self,
        tokens: torch.Tensor,
        position: torch.Tensor,
        mask: torch.Tensor | None,
        start: int,
        keep: int,
        causal: bool = False,
    ) -> torch.Tensor:
        batch, count = tokens.shape
        stop, half = start + count, self._size // 2
        entries = self._room(batch, stop)
        cosine, sine = self._cosine[position].unsqueeze(2), self._sine[position].unsqueeze(2)
        group = self._heads // self._key_heads
        hidden = embedding(tokens, self._embedding)
        if self._token is not None:
            hidden = linear(hidden, *self._token)
        if self.added is not None:
            hidden = hidden + self.added
        states = [hidden]
        for number, layer in enumerate(self._layers):
            normed = rms_norm(hidden, layer.before_attention.shape, layer.before_attention, self._epsilon)
            query = linear(normed, *layer.query).view(batch, count, self._heads, self._size)
            key = linear(normed, *layer.key).view(batch, count, self._key_heads, self._size)
            value = linear(normed, *layer.value).view(batch, count, self._key_heads, self._size)
            query = query * cosine + query.roll(half, -1) * sine
            keys, values = entries[2 * number, :, :, :stop], entries[2 * number + 1, :, :, :stop]
            keys[:, :, start:] = (key * cosine + key.roll(half, -1) * sine).transpose(1, 2)
            values[:, :, start:] = value.transpose(1, 2)
            query = query.transpose(1, 2)
            if group > 1 and count == 1:  # heads of one key as so many queries
                query = query.reshape(batch, self._key_heads, group, self._size)
            elif group > 1:
                keys, values = (states.repeat_interleave(group, dim=1) for states in (keys, values))
            attended = scaled_dot_product_attention(query, keys, values, attn_mask=mask, is_causal=causal)
            attended = attended.reshape(batch, self._heads, count, self._size)
            hidden = hidden + linear(attended.transpose(1, 2).reshape(batch, count, -1), *layer.out)
            normed = rms_norm(hidden, layer.before_mlp.shape, layer.before_mlp, self._epsilon)
            up = linear(normed, *layer.up)
            if self.shifts is not None:
                up = up + self.shifts[number]
            hidden = hidden + linear(silu(linear(normed, *layer.gate)) * up, *layer.down)
            states.append(hidden)
        if self._wanted:
            states[-1] = rms_norm(hidden, self._norm.shape, self._norm, self._epsilon)
            self.features = torch.stack([states[layer] for layer in self._wanted], dim=2)
        last = rms_norm(hidden[:, -keep:], self._norm.shape, self._norm, self._epsilon)
        return last if self._head is None else linear(last, self._head)

    @property
    def blocks(self) -> Sequence[Block]:
        """Keys and values of all layers in one."""
        return [] if self._block is None else [self._block]

    def _room(self, batch: int, columns: int) -> torch.Tensor:
        """Entries of at least so many columns, and angles for as many positions."""
        if self._block is None:
            first = self._embedding.new_empty(batch, self._key_heads, columns, self._size)
            self._block = Block(2 * len(self._layers), first)
        self._block.reserve(columns)
        entries = self._block.entries
        if len(self._cosine) < entries.shape[3]:
            positions = torch.arange(entries.shape[3])[None]
            cosine, sine = self._rotary(self._embedding, positions)
            sine[..., : self._size // 2].neg_()
            self._cosine, self._sine = cosine[0], sine[0]
        return entries


def _is_plain(module: nn.Module) -> bool:
    """Whether nobody put in a hook, a forward of their own, or another kind of layer: an adapter, quantised weights."""
    hooked = module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
    known = (nn.Linear, nn.Embedding, nn.ModuleList, nn.SiLU, nn.Identity, SteeredLlama, SteeredMLP, Steering, FedLlama)
    own = type(module).__module__.startswith(("transformers.models.", "transformers.activations"))
    return not hooked and (own or type(module) in known)

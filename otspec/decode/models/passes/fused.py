"""A fused forward pass for Llamas: at a few million parameters, transformers' costs as much as the arithmetic.

What is left out are modules, hooks, keywords, and copies of the cache.  Angles of positions are looked up, and a
rotation by halves is a roll whose signs are in the sines.  On a CPU, in float32, these are the same operations on the
same numbers as in transformers, so the same bits; packed weights (`packed`) and bfloat16 round in another way.  On a
GPU it is half as many kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import embedding, rms_norm, silu
from transformers import LlamaForCausalLM, MistralForCausalLM, PreTrainedModel, Qwen2ForCausalLM, Qwen3ForCausalLM

from otspec.decode.models.passes.conditioned import Conditioned
from otspec.decode.models.passes.packed import Product, product_of
from otspec.decode.models.passes.plain import is_plain
from otspec.decode.models.passes.signature import Inputs, Outputs

ALIKE = (LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM)
"""Classes of transformers that compute this, up to biases, norms of heads, and masks, which are ours."""

FIXED_ANGLES = ("default", "linear", "llama3")
"""Kinds of rotary positions whose angles do not depend on the length of the text."""


class Layer(NamedTuple):
    """The weights of a layer, of which nothing is copied."""

    before_attention: torch.Tensor | None
    """Shape (d,): the weights of the norm, if there is one."""
    beside: torch.Tensor | None
    """Shape (d,): those of the norm of what a first layer's attention reads beside tokens, if it reads such."""
    around_normed: bool
    """Whether what goes around that attention is normed."""
    query: Product
    key: Product
    value: Product
    of_query: torch.Tensor | None
    """Shape (size,): the weights of the norm of every head, if there is one."""
    of_key: torch.Tensor | None
    """Shape (size,), too."""
    out: Product
    before_mlp: torch.Tensor
    """Shape (d,)."""
    gate: Product
    up: Product
    down: Product

    @classmethod
    def of(cls, layer: Any) -> Layer:
        """The weights of a module."""
        attention, mlp = layer.self_attn, layer.mlp
        return cls(
            getattr(layer.input_layernorm, "weight", None),
            layer.hidden_norm.weight if hasattr(layer, "hidden_norm") else None,
            getattr(layer, "norm_before_residual", False),
            product_of(attention.q_proj),
            product_of(attention.k_proj),
            product_of(attention.v_proj),
            attention.q_norm.weight if hasattr(attention, "q_norm") else None,
            attention.k_norm.weight if hasattr(attention, "k_norm") else None,
            product_of(attention.o_proj),
            layer.post_attention_layernorm.weight,
            product_of(mlp.gate_proj),
            product_of(mlp.up_proj),
            product_of(mlp.down_proj),
        )

    @property
    def is_eagle(self) -> bool:
        """Whether it is a first layer of EAGLE's, whose attention does not begin behind one norm."""
        return self.before_attention is None or self.beside is not None

    def begin(self, hidden: torch.Tensor, epsilon: float) -> tuple[torch.Tensor, torch.Tensor]:
        """What goes around the attention, shape (B, N, d), and what goes into it, (B, N, d) or twice as wide.

        Parameters
        ----------
        hidden : Tensor
            What goes into the layer.
        epsilon : float
            Of its norms.
        """
        if self.beside is None:
            return hidden, normed(hidden, self.before_attention, epsilon)
        token, hidden = hidden.chunk(2, dim=-1)
        beside = normed(hidden, self.beside, epsilon)
        both = torch.cat((normed(token, self.before_attention, epsilon), beside), dim=-1)
        return beside if self.around_normed else hidden, both


Attend = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Takes the number of a layer, and query, key and value of every new token, shape (B, heads, N, size): what they find,
shape (B, heads, N, size).  It stores keys and values."""

Through = Callable[[int, torch.Tensor], torch.Tensor]
"""Takes the number of a layer, and what goes into it, shape (B, N, d), to what comes out of it."""


class Llama:
    """The layers of a model and its head; the caller stores keys and values.

    Parameters
    ----------
    model : PreTrainedModel
        One that `takes` accepts.
    layers : sequence of int
        After how many layers hidden states are returned.
    """

    def __init__(self, model: PreTrainedModel, layers: Sequence[int] = ()) -> None:
        config: Any = model.config
        self.layers = [Layer.of(layer) for layer in model.model.layers]
        self.embedding = model.model.embed_tokens.weight
        self._begin = model.begin if isinstance(model, Conditioned) else self._embedded
        norm = model.last_norm if isinstance(model, Conditioned) else model.model.norm
        self.norm: torch.Tensor | None = getattr(norm, "weight", None)
        self.gives_normed = model.gives_normed if isinstance(model, Conditioned) else True
        self.head = None if isinstance(model.lm_head, nn.Identity) else product_of(model.lm_head)
        self.epsilon = float(config.rms_norm_eps)
        self.heads, self.key_heads = config.num_attention_heads, config.num_key_value_heads
        self.size: int = model.model.layers[0].self_attn.head_dim
        self._rotary = model.model.rotary_emb
        self.wanted = layers

    @staticmethod
    def takes(model: PreTrainedModel) -> bool:
        """Whether the model computes this and nothing else: no hooks, adapters or quantised layers."""
        alike = type(model) in ALIKE or (isinstance(model, Conditioned) and isinstance(model, ALIKE))
        if model.training or not alike:
            return False
        config: Any = model.config
        return (
            config._attn_implementation == "sdpa"
            and config.hidden_act == "silu"
            and config.rope_parameters["rope_type"] in FIXED_ANGLES
            and getattr(model, "is_lean", True)
            and is_plain(model)
        )

    def _embedded(self, tokens: torch.Tensor, added: torch.Tensor | None) -> torch.Tensor:
        vectors = embedding(tokens, self.embedding)
        return vectors if added is None else vectors + added

    @property
    def count(self) -> int:
        """Number of layers."""
        return len(self.layers)

    def angles(self, positions: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and signed sines of so many positions, shape (positions, size) both."""
        cosine, sine = self._rotary(self.embedding, torch.arange(positions, device=self.embedding.device)[None])
        sine[..., : self.size // 2].neg_()
        return cosine[0], sine[0]

    def begin(self, inputs: Inputs) -> torch.Tensor:
        """What goes into the first layer, shape (B, N, d) or twice as wide, a tensor of its own."""
        return self._begin(inputs.tokens, inputs.conditioning.added)

    def read(self, inputs: Inputs, through: Through) -> Outputs:
        """Logits of the last tokens of a block, and hidden states where layers are wanted.

        Parameters
        ----------
        inputs : Inputs
            Whose mask and positions are left to the other one.
        through : callable
            `through` of this class, or what computes the same.
        """
        hidden = self.begin(inputs)
        states = [hidden]
        for number in range(self.count):
            hidden = through(number, hidden)
            states.append(hidden)
        features = None
        if self.gives_normed and self.count in self.wanted:
            states[-1] = normed(hidden, self.norm, self.epsilon)
            last = states[-1][:, -inputs.keep :]
        else:
            last = normed(hidden[:, -inputs.keep :], self.norm, self.epsilon)
        if self.wanted:
            features = torch.stack([states[layer] for layer in self.wanted], dim=2)
        return Outputs(last if self.head is None else self.head(last), features)

    def through(
        self, angles: tuple[torch.Tensor, torch.Tensor], shifts: torch.Tensor | None, attend: Attend
    ) -> Through:
        """One layer after the other, by torch's operations.

        Parameters
        ----------
        angles : pair of Tensors, shape (B, N, size)
            Of the positions of a block.
        shifts : Tensor, shape (layers, B, N or 1, added), optional
            As `otspec.decode.models.passes.signature.Conditioning` has them.
        attend : callable
        """
        half = self.size // 2
        cosine, sine = (angle.unsqueeze(2) for angle in angles)

        def layer_of(number: int, hidden: torch.Tensor) -> torch.Tensor:
            layer, (batch, count, _) = self.layers[number], hidden.shape
            hidden, read = layer.begin(hidden, self.epsilon)
            query = layer.query(read).view(batch, count, self.heads, self.size)
            key = layer.key(read).view(batch, count, self.key_heads, self.size)
            value = layer.value(read).view(batch, count, self.key_heads, self.size)
            query, key = normed(query, layer.of_query, self.epsilon), normed(key, layer.of_key, self.epsilon)
            query = query * cosine + query.roll(half, -1) * sine
            key = key * cosine + key.roll(half, -1) * sine
            attended = attend(number, query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2))
            hidden = hidden + layer.out(attended.transpose(1, 2).reshape(batch, count, -1))
            read = normed(hidden, layer.before_mlp, self.epsilon)
            gate, up = layer.gate(read), layer.up(read)
            if shifts is not None:
                up = up + shifts[number]
            return hidden + layer.down(silu(gate) * up)

        return layer_of


def normed(rows: torch.Tensor, gain: torch.Tensor | None, epsilon: float) -> torch.Tensor:
    """Rows by their root mean squares, times the weights of a norm, shape (d,); as they are where there is none."""
    return rows if gain is None else rms_norm(rows, gain.shape, gain, epsilon)

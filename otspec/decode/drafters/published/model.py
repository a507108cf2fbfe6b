"""EAGLE's layers with the arithmetic that is published, which engines serve [li2024eagle; li2025eagle3].

With every token but the first of a text a layer reads what the target thought of the token before it.  In EAGLE (1 and
2) that is the target's last hidden state, a map takes it and the token's embedding to one vector, and what comes out is
to be such a state itself: it goes into the target's head, and back in.  In EAGLE-3 it is a map of three of the target's
hidden states, and the first layer's attention reads it beside the embedding, twice as wide; what comes out goes back in
as it is, and by a norm into a head of the layer's own, which may have few of the target's tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import nn
from torch.nn.functional import embedding
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    PreTrainedModel,
)
from transformers.modeling_outputs import CausalLMOutputWithPast

from otspec.decode.drafters.eagle.layer import llama_settings
from otspec.decode.drafters.hidden_states import last_layer
from otspec.decode.drafters.published.config import PublishedConfig, check_features, eagle3_layers
from otspec.decode.models.context import vocabulary
from otspec.decode.models.head import lent_head
from otspec.decode.models.passes.conditioned import Conditioned, Keeper, OwnModule
from otspec.errors import ProblemError
from otspec.laws import IntArray


class WideLayer(OwnModule, nn.Module):
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

    def forward(self, hidden_states: torch.Tensor, **told: Any) -> torch.Tensor:
        """What it makes of tokens and hidden states, shape (B, N, width), from (B, N, 2 width)."""
        token, hidden = hidden_states.chunk(2, dim=-1)
        normed = self.hidden_norm(hidden)
        attended, _ = self.self_attn(hidden_states=torch.cat((self.input_layernorm(token), normed), dim=-1), **told)
        hidden = attended + (normed if self.norm_before_residual else hidden)
        found: torch.Tensor = hidden + self.mlp(self.post_attention_layernorm(hidden))
        return found


class PublishedEagle(Conditioned, Keeper, PreTrainedModel):  # type: ignore[misc]
    """A layer of EAGLE or EAGLE-3, or several of EAGLE-3."""

    config_class = PublishedConfig
    base_model_prefix = "model"
    _supports_sdpa = True
    _keys_to_ignore_on_load_missing = ("lm_head.weight",)

    def __init__(self, config: PublishedConfig) -> None:
        super().__init__(config)
        family = AutoConfig.for_model(**config.layer)
        family._attn_implementation = config._attn_implementation
        family.vocab_size, family.pad_token_id = config.vocab_size if config.own_embedding else 0, None
        width, eps = family.hidden_size, family.rms_norm_eps
        self.model = AutoModel.from_config(family)
        self.model.embed_tokens.weight.requires_grad_(False)
        first, norm = self.model.layers[0], type(self.model.norm)
        self.model.norm = nn.Identity()
        if config.version == 1:
            first.input_layernorm = nn.Identity()
            self.fc = nn.Linear(2 * width, width, config.bias)
            self.norm: nn.Module = nn.Identity()
        else:
            self.model.layers[0] = WideLayer(first, width, eps, config.norm_before_residual)
            self.fc = nn.Linear(config.looked_at * config.feature_width, width, bias=False)
            self.norm = norm(width, eps)
        if config.norm_before_fc:
            self.input_norm = norm(config.looked_at * config.feature_width, eps)
        if config.fc_norm:
            self.fc_norm = nn.ModuleList(norm(config.feature_width, eps) for _ in range(config.looked_at))
        rows = config.kept or config.vocab_size
        self.lm_head: Any = nn.Linear(width, rows, bias=False) if config.own_head else nn.Identity()
        if not config.own_head:
            self._keys_to_ignore_on_save = ("lm_head.weight",)
        self.register_buffer("tokens", torch.zeros(config.kept, dtype=torch.int32))
        self._lent: tuple[torch.Tensor, ...] = ()
        self.post_init()

    @classmethod
    def of(cls, target: PreTrainedModel, version: int, features: Sequence[int], tokens: IntArray | None = None) -> Self:
        """A layer with weights that are random, of the shape of the target's; EAGLE-3's head begins as the target's.

        Parameters
        ----------
        target : PreTrainedModel
        version : int
            1 or 3.
        features : sequence of int
            After how many of the target's layers its hidden states are looked at.
        tokens : array of int, shape (k,), optional
            Those that EAGLE-3 drafts, ascending.

        Raises
        ------
        ProblemError
            If the target's head cannot be taken.
        """
        config, vocab = target.config.get_text_config(), vocabulary(target)
        fixed = {"num_hidden_layers": 1, "vocab_size": vocab, "pad_token_id": None, "hidden_act": "silu"}
        told = llama_settings(target) | fixed
        model = cls(
            PublishedConfig(
                AutoConfig.for_model("llama", **told).to_dict(),
                version,
                features,
                config.hidden_size,
                len(features),
                0 if tokens is None else len(tokens),
                own_head=version == 3,
            )
        ).to(target.device)
        with torch.no_grad():
            if tokens is not None:
                model.tokens.copy_(torch.as_tensor(tokens))
            if version == 3:
                rows = slice(None) if tokens is None else model.tokens.long()
                model.lm_head.weight.copy_(lent_head(target, target.dtype, rows).weight)
        model.borrow(target)
        return model.train(target.training)

    def borrow(self, target: PreTrainedModel) -> None:
        """Take the target's embedding and head where there are none of its own.

        Raises
        ------
        ProblemError
            If it is for a target of another size.
        """
        config, vectors = self.config, target.get_input_embeddings().weight
        if self._lent and self._lent[0] is vectors:
            return
        width = int(target.config.get_text_config().hidden_size)
        for what, own, its in (
            ("hidden states of width", config.feature_width, width),
            ("vocabularies of size", config.vocab_size, vocabulary(target)),
            *([] if config.own_embedding else [("embeddings of width", config.hidden_size, vectors.shape[1])]),
        ):
            if own != its:
                raise ProblemError(
                    f"the draft model is for {what} {own}, and the target's is {its}; it belongs to another target"
                )
        if config.version == 3:
            config.features = list(check_features(config.features or eagle3_layers(target), target))
        else:
            config.features = list(last_layer(target))
        if not config.own_head:
            self.lm_head = lent_head(target, self.dtype)
        self._lent = (vectors,)  # in a tuple, lest it become a parameter, which would learn

    def vectors(self, tokens: torch.Tensor) -> torch.Tensor:
        """Embeddings, shape (..., hidden)."""
        own = self.model.embed_tokens.weight if self.config.own_embedding else self._lent[0]
        return embedding(tokens, own).to(self.dtype)

    def conditioning(self, features: torch.Tensor) -> torch.Tensor:
        """What is read with tokens, shape (..., hidden), of the target's states at the tokens before them.

        Parameters
        ----------
        features : Tensor, shape (..., len(features), feature_width)
        """
        states = features.to(self.dtype)
        if self.config.version == 1:
            return states.squeeze(-2)
        if self.config.fc_norm:
            states = torch.stack([norm(one) for norm, one in zip(self.fc_norm, states.unbind(-2), strict=True)], -2)
        states = states.flatten(-2)
        mapped: torch.Tensor = self.fc(self.input_norm(states) if self.config.norm_before_fc else states)
        return mapped

    def added_of_own(self, outputs: torch.Tensor) -> torch.Tensor:
        """The same where the model's own outputs at the tokens before stand in for the target's states."""
        return outputs

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past_key_values: Any = None,
        logits_to_keep: int = 0,
        added: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **settings: Any,
    ) -> CausalLMOutputWithPast:
        """Logits of the rows of the head, and what goes back in as the last of the hidden states.

        Parameters
        ----------
        input_ids, attention_mask, position_ids, past_key_values, logits_to_keep, use_cache
            As a Llama has them.
        added : Tensor, shape (B, N, hidden), optional
            What is read with the tokens; by default 0.
        **settings
            Are ignored.
        """
        vectors = self.vectors(input_ids)
        both = torch.cat((vectors, torch.zeros_like(vectors) if added is None else added), dim=-1)
        outputs = self.model(
            inputs_embeds=self.fc(both) if self.config.version == 1 else both,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            use_cache=use_cache,
        ).last_hidden_state
        normed = self.norm(outputs)
        return CausalLMOutputWithPast(
            logits=self.lm_head(normed[:, -logits_to_keep:]),
            past_key_values=past_key_values,
            hidden_states=(vectors,) * self.config.num_hidden_layers
            + (normed if self.config.norm_output else outputs,),
        )


AutoConfig.register(PublishedConfig.model_type, PublishedConfig)
AutoModelForCausalLM.register(PublishedConfig, PublishedEagle)

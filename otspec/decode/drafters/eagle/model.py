"""EAGLE-style draft models, which read the target's hidden states token by token [li2024eagle].

With every token the draft model reads the target's hidden states at the token before it, mapped to its own width and
added to the token's embedding.  Where the target has not read the token before, that is among the drafts, the draft
model's own output there stands in for them.  At first both maps are 0, which leaves the draft model as it is.

Made of a target in place of a draft model, it is EAGLE's own: its outputs are to be the target's last hidden states
themselves, so one map serves both, and the target's head makes laws of either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2ForCausalLM,
)
from transformers.modeling_outputs import CausalLMOutputWithPast

from otspec.decode.drafters.hidden_states import configuration_of, to_one_size
from otspec.decode.models.passes.conditioned import ConditionedLlama
from otspec.errors import ProblemError

ALIKE = (LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM)
"""Targets whose parts are those of a Llama."""

TAKEN_OVER = (
    *("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim"),
    *("hidden_act", "max_position_embeddings", "rms_norm_eps", "rope_parameters", "initializer_range"),
    *("tie_word_embeddings", "bos_token_id", "eos_token_id", "pad_token_id"),
)
"""What a layer in a target's place has of the target's configuration."""


class EagleConfig(LlamaConfig):  # type: ignore[misc]  # transformers is untyped here
    """Of a `EagleLlama`.

    Parameters
    ----------
    features : sequence of int
        After how many of the target's layers its hidden states are looked at.
    feature_width : int
        Their width.
    drafts_features : bool
        Whether its own outputs are to be such hidden states, and are read as these are.
    **config
        Of the Llama.
    """

    model_type = "otspec_fed_llama"

    def __init__(
        self, features: Sequence[int] = (), feature_width: int = 0, drafts_features: bool = False, **config: Any
    ) -> None:
        super().__init__(**config)
        self.features = list(features)
        self.feature_width = feature_width
        self.drafts_features = drafts_features


class EagleLlama(ConditionedLlama, LlamaForCausalLM):  # type: ignore[misc]
    """A Llama with something added to its embeddings; without that it is the Llama of the same weights."""

    config_class = EagleConfig

    def __init__(self, config: EagleConfig) -> None:
        super().__init__(config)
        self.seen = nn.Linear(config.feature_width * len(config.features), config.hidden_size, bias=False)
        if config.drafts_features:
            self.token = nn.Linear(config.hidden_size, config.hidden_size)
        else:
            self.own = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    @classmethod
    def of(cls, draft: LlamaForCausalLM, features: Sequence[int], width: int) -> EagleLlama:
        """A copy of a draft model with maps that do nothing yet.

        Parameters
        ----------
        draft : LlamaForCausalLM
        features : sequence of int
            After how many of the target's layers its hidden states are looked at.
        width : int
            Their width.

        Raises
        ------
        ProblemError
            If the model is no Llama.
        """
        model = cls(EagleConfig(features, width, **configuration_of(draft))).to(draft.device, draft.dtype)
        model.load_state_dict(draft.state_dict(), strict=False)
        nn.init.zeros_(model.seen.weight)
        nn.init.zeros_(model.own.weight)
        return model.train(draft.training)

    @classmethod
    def of_target(cls, target: PreTrainedModel) -> EagleLlama:
        """A layer as the target's are, with weights that are random, between the target's own embedding and head.

        These two do not learn.  The target's last norm is where its own begins.

        Parameters
        ----------
        target : PreTrainedModel

        Raises
        ------
        ProblemError
            If the target is not made as a Llama is.
        """
        if type(target) not in ALIKE:
            raise ProblemError(
                f"the target is a {type(target).__name__}; what drafts hidden states in its place is made for "
                f"{', '.join(kind.__name__ for kind in ALIKE)}; train an EAGLE-style draft model (eagle), or "
                "heads (medusa, mlp)"
            )
        told = {name: value for name in TAKEN_OVER if (value := getattr(target.config, name, None)) is not None}
        layers, width = target.config.num_hidden_layers, target.config.hidden_size
        model = cls(EagleConfig([layers], width, drafts_features=True, num_hidden_layers=1, **told))
        model.to(target.device, target.dtype)
        with torch.no_grad():
            for mine, its in (
                (model.get_input_embeddings(), target.get_input_embeddings()),
                (model.get_output_embeddings(), target.get_output_embeddings()),
                (model.model.norm, target.model.norm),
            ):
                mine.weight.copy_(its.weight)
        for part in (model.get_input_embeddings(), model.get_output_embeddings()):
            part.weight.requires_grad_(False)
        return model.train(target.training)

    def vectors(self, tokens: torch.Tensor) -> torch.Tensor:
        """As `ConditionedLlama.vectors`, shape (..., hidden)."""
        vectors = super().vectors(tokens)
        return self.token(vectors) if self.config.drafts_features else vectors

    def conditioning(self, features: torch.Tensor) -> torch.Tensor:
        """What is added to tokens, shape (..., hidden), the token after the target's state.

        Parameters
        ----------
        features : Tensor, shape (..., len(features), feature_width)
            0 where there is no token before.
        """
        added: torch.Tensor = self.seen(to_one_size(features).flatten(-2).to(self.dtype))
        return added

    def added_of_own(self, outputs: torch.Tensor) -> torch.Tensor:
        """The same where the model's own outputs at the token before stand in for the target's, (..., hidden)."""
        if self.config.drafts_features:
            return self.conditioning(outputs.unsqueeze(-2))
        added: torch.Tensor = self.own(outputs)
        return added

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past_key_values: Any = None,
        logits_to_keep: int | torch.Tensor = 0,
        added: torch.Tensor | None = None,
        **settings: Any,
    ) -> CausalLMOutputWithPast:
        """As a Llama, with `added` of shape (B, N, hidden) added to the embeddings."""
        assert input_ids is not None
        vectors = self.vectors(input_ids)
        return super().forward(
            inputs_embeds=vectors if added is None else vectors + added,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            logits_to_keep=logits_to_keep,
            **settings,
        )


AutoConfig.register(EagleConfig.model_type, EagleConfig)
AutoModelForCausalLM.register(EagleConfig, EagleLlama)

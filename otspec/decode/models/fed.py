"""Draft models that are fed what the target thinks, token by token [li2024eagle].

With every token the draft model reads the target's hidden states at the token before it, mapped to its own width and
added to the token's embedding.  Where the target has not read the token before, that is among the drafts, the draft
model's own output there stands in for them.  At first both maps are 0, which leaves the draft model as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers.modeling_outputs import CausalLMOutputWithPast

from otspec.decode.models.steered import configuration_of, to_one_size


class FedConfig(LlamaConfig):  # type: ignore[misc]  # transformers is untyped here
    """Of a `FedLlama`.

    Parameters
    ----------
    features : sequence of int
        After how many of the target's layers its hidden states are looked at.
    feature_width : int
        Their width.
    **config
        Of the Llama.
    """

    model_type = "otspec_fed_llama"

    def __init__(self, features: Sequence[int] = (), feature_width: int = 0, **config: Any) -> None:
        super().__init__(**config)
        self.features = list(features)
        self.feature_width = feature_width


class FedLlama(LlamaForCausalLM):  # type: ignore[misc]
    """A Llama with something added to its embeddings; without that it is the Llama of the same weights."""

    config_class = FedConfig

    def __init__(self, config: FedConfig) -> None:
        super().__init__(config)
        self.seen = nn.Linear(config.feature_width * len(config.features), config.hidden_size, bias=False)
        self.own = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    @classmethod
    def of(cls, draft: LlamaForCausalLM, features: Sequence[int], width: int) -> FedLlama:
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
        model = cls(FedConfig(features, width, **configuration_of(draft))).to(draft.device, draft.dtype)
        model.load_state_dict(draft.state_dict(), strict=False)
        nn.init.zeros_(model.seen.weight)
        nn.init.zeros_(model.own.weight)
        return model.train(draft.training)

    def added_of(self, features: torch.Tensor) -> torch.Tensor:
        """What is added to tokens, shape (..., hidden), the token before which the target thinks this.

        Parameters
        ----------
        features : Tensor, shape (..., len(features), feature_width)
            0 where there is no token before.
        """
        added: torch.Tensor = self.seen(to_one_size(features).flatten(-2).to(self.dtype))
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
        embedded = {"input_ids": input_ids}
        if added is not None:
            embedded = {"inputs_embeds": self.get_input_embeddings()(input_ids) + added}
        return super().forward(
            **embedded,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            logits_to_keep=logits_to_keep,
            **settings,
        )


AutoConfig.register(FedConfig.model_type, FedConfig)
AutoModelForCausalLM.register(FedConfig, FedLlama)

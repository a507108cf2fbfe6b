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
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from otspec.decode.drafters.decoders import FolderConfig, More
from otspec.decode.drafters.eagle.layer import begin_norm, layer_settings
from otspec.decode.drafters.hidden_states import head_of, to_one_size
from otspec.decode.models.head import softly_capped


class EagleSettings:
    """What an `Eagle` model's configuration says besides.

    Parameters
    ----------
    features : sequence of int
        After how many of the target's layers its hidden states are looked at.
    feature_width : int
        Their width.
    drafts_features : bool
        Whether its own outputs are to be such hidden states, and are read as these are.
    **config
        Of the decoder.
    """

    def __init__(
        self, features: Sequence[int] = (), feature_width: int = 0, drafts_features: bool = False, **config: Any
    ) -> None:
        super().__init__(**config)
        self.features = list(features)
        self.feature_width = feature_width
        self.drafts_features = drafts_features


class Eagle(More):
    """A decoder with something added to its embeddings; without that it is the decoder of the same weights."""

    settings = EagleSettings
    model_type = "otspec_fed"

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        width, own = self.get_input_embeddings().embedding_dim, config.get_text_config().hidden_size
        self.seen = nn.Linear(config.feature_width * len(config.features), width, bias=False)
        if config.drafts_features:
            self.token = nn.Linear(width, width)
        else:
            self.own = nn.Linear(own, width, bias=False)

    @classmethod
    def of(cls, draft: PreTrainedModel, features: Sequence[int], width: int) -> Any:
        """A copy of a draft model with maps that do nothing yet.

        Parameters
        ----------
        draft : PreTrainedModel
        features : sequence of int
            After how many of the target's layers its hidden states are looked at.
        width : int
            Their width.

        Raises
        ------
        ProblemError
            If the model is no decoder of transformers, or needs more of its tokens than their embeddings.
        """
        model = Eagle.copy_of(draft, features=features, feature_width=width)
        nn.init.zeros_(model.seen.weight)
        nn.init.zeros_(model.own.weight)
        return model

    def vectors(self, tokens: torch.Tensor) -> torch.Tensor:
        """As `Conditioned.vectors`, shape (..., hidden)."""
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
        """As the decoder, with `added` of shape (B, N, hidden) added to the embeddings."""
        assert input_ids is not None
        vectors = self.vectors(input_ids)
        found = super().forward(
            inputs_embeds=vectors if added is None else vectors + added,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            logits_to_keep=logits_to_keep,
            **settings,
        )
        found.logits = self.capped(found.logits)
        return found

    def capped(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits as the decoder gives them, which has a soft cap of its own or none."""
        return logits


class EagleConfig(EagleSettings, LlamaConfig):  # type: ignore[misc]
    """Of an `EagleLlama`.

    Parameters
    ----------
    layer_norm, head_bias : bool
        Whether its last norm takes the mean off, and whether its head has a bias, as its target's do.
    final_logit_softcapping : float, optional
        Its target's.
    **config
        As in `EagleSettings`, and of the Llama.
    """

    model_type = "otspec_fed_llama"

    def __init__(
        self,
        layer_norm: bool = False,
        head_bias: bool = False,
        final_logit_softcapping: float | None = None,
        **config: Any,
    ) -> None:
        super().__init__(**config)
        self.layer_norm = layer_norm
        self.head_bias = head_bias
        self.final_logit_softcapping = final_logit_softcapping


class EagleLlama(Eagle, LlamaForCausalLM):  # type: ignore[misc]
    """A Llama that is fed, under the name that it has in folders; or a layer of one in the place of any target."""

    config_class = EagleConfig
    lm_head: Any

    def __init__(self, config: EagleConfig) -> None:
        super().__init__(config)
        if config.layer_norm:
            self.model.norm = nn.LayerNorm(config.hidden_size, config.rms_norm_eps)
        if config.head_bias:
            self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)

    def _take_norm(self, config: EagleConfig) -> None:
        """A last norm of the target's kind."""
        if config.layer_norm:
            self.model.norm = nn.LayerNorm(config.hidden_size, config.rms_norm_eps)

    @classmethod
    def of_target(cls, target: PreTrainedModel) -> EagleLlama:
        """A layer as the target's are, with weights that are random, between the target's own embedding and head.

        These two do not learn.  The target's last norm is where its own begins.  A target that is not made as a Llama
        is gets the layer of a Llama of its width.

        Parameters
        ----------
        target : PreTrainedModel

        Raises
        ------
        ProblemError
            If the target's head cannot be copied.
        """
        text, head = target.config.get_text_config(), head_of(target)
        embedding, told = target.get_input_embeddings(), layer_settings(target, head)
        with torch.no_grad():
            vectors = embedding(torch.arange(told["vocab_size"], device=embedding.weight.device))
        tied = told.pop("tie_word_embeddings", False) and torch.equal(vectors, head.weight)
        layers, width = [text.num_hidden_layers], text.hidden_size
        told |= {"num_hidden_layers": 1, "tie_word_embeddings": tied, "head_bias": head.bias is not None}
        model = cls(EagleConfig(features=layers, feature_width=width, drafts_features=True, **told))
        model.to(target.device, target.dtype)
        with torch.no_grad():
            model.model.embed_tokens.weight.copy_(vectors)
            model.lm_head.weight.copy_(head.weight)
            if head.bias is not None:
                model.lm_head.bias.copy_(head.bias)
        begin_norm(model.model.norm, target)
        for part in (model.model.embed_tokens, model.lm_head):
            part.requires_grad_(False)
        return model.train(target.training)

    def capped(self, logits: torch.Tensor) -> torch.Tensor:
        """Logits as its target's soft cap leaves them, which a Llama knows nothing of."""
        return softly_capped(logits, self.config.final_logit_softcapping)


AutoConfig.register(EagleConfig.model_type, EagleConfig)
AutoModelForCausalLM.register(EagleConfig, EagleLlama)
FolderConfig.register(Eagle)

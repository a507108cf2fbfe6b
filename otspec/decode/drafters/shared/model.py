"""Draft layers between the target's own embedding and head, neither of which is copied.

A layer or two read the target's hidden states after middle and high layers, token by token, much as EAGLE-3's do
[li2025eagle3]: with every token those at the token before it, and where the target has not read that, their own output
there.  With *masks* they draft several tokens in one pass: a learnt vector stands for each token that is not known yet,
which sees the text and the masks before it, so that its law is that of the token so many places on, whatever comes in
between.  These laws are a product: drafts of one depth do not depend on those of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import nn
from torch.nn.functional import embedding
from transformers import AutoConfig, AutoModelForCausalLM, LlamaForCausalLM, PreTrainedModel

from otspec.decode.drafters.eagle.layer import begin_norm, layer_settings
from otspec.decode.drafters.eagle.model import EagleConfig, EagleLlama
from otspec.decode.drafters.hidden_states import head_of, to_one_size
from otspec.decode.models.fingerprint import fingerprint, keep_fingerprint
from otspec.decode.models.head import lent_head
from otspec.decode.models.passes.conditioned import Keeper
from otspec.decode.models.passes.packed import PackedLinear, pack_layers
from otspec.errors import ProblemError
from otspec.laws import IntArray

BORROWED = ("model.embed_tokens.weight", "lm_head.weight", "lm_head.bias")
"""Weights that are the target's."""


class SharedConfig(EagleConfig):
    """Of a `SharedLlama`.

    Parameters
    ----------
    features : sequence of int
        After how many of the target's layers its hidden states are looked at.
    feature_width : int
        Their width, which is that of the layers.
    masks : int
        Tokens that are drafted at once beside the first; 0: token by token.
    kept : int
        How many of the target's tokens are drafted; 0: all.
    target : str
        Fingerprint of the target.
    **config
        Of the Llama.
    """

    model_type = "otspec_shared_llama"

    def __init__(
        self,
        features: Sequence[int] = (),
        feature_width: int = 0,
        masks: int = 0,
        kept: int = 0,
        target: str = "",
        **config: Any,
    ) -> None:
        config["tie_word_embeddings"] = False
        super().__init__(features=features, feature_width=feature_width, **config)
        self.masks, self.kept, self.target = masks, kept, target


class SharedLlama(Keeper, EagleLlama):
    """Layers that draft for one target, from its hidden states, by its embedding and head."""

    config_class: type[SharedConfig] = SharedConfig
    lm_head: Any
    _keys_to_ignore_on_save = BORROWED
    _keys_to_ignore_on_load_missing = BORROWED

    def __init__(self, config: SharedConfig) -> None:
        vocab, config.vocab_size = config.vocab_size, 1  # a row stands for what is borrowed later
        LlamaForCausalLM.__init__(self, config)
        config.vocab_size = self.vocab_size = self.model.vocab_size = vocab
        width = config.hidden_size
        self._take_norm(config)
        self.seen = nn.Linear(config.feature_width * len(config.features), width, bias=False)
        self.token = nn.Linear(width, width)
        if config.masks:
            self.masks = nn.Parameter(torch.zeros(config.masks, width))
        else:
            self.own = nn.Linear(width, width, bias=False)
        self.register_buffer("tokens", torch.zeros(config.kept, dtype=torch.int32))
        self._embedding: tuple[torch.Tensor, ...] = ()

    @classmethod
    def of(  # type: ignore[override]  # it is made of a target
        cls,
        target: PreTrainedModel,
        features: Sequence[int],
        *,
        layers: int = 1,
        masks: int = 0,
        tokens: IntArray | None = None,
    ) -> Self:
        """Layers as the target's are, with weights that are random; the target's last norm is where their own begins.

        A target that is not made as a Llama is gets layers of a Llama of its width.

        Parameters
        ----------
        target : PreTrainedModel
        features : sequence of int
            After how many of the target's layers its hidden states are looked at.
        layers, masks : int
        tokens : array of int, shape (k,), optional
            Those that are drafted, ascending.

        Raises
        ------
        ProblemError
            If the target's head cannot be had apart from the rest, or its logits are scaled.
        """
        told = layer_settings(target, head_of(target, in_place=True))
        told |= {"num_hidden_layers": layers, "pad_token_id": None}
        kept, width = 0 if tokens is None else len(tokens), told["hidden_size"]
        model = cls(SharedConfig(features, width, masks, kept, fingerprint(target), **told)).to(target.device)
        begin_norm(model.model.norm, target)
        with torch.no_grad():
            if tokens is not None:
                model.tokens.copy_(torch.as_tensor(tokens))
            if masks:
                nn.init.normal_(model.masks, std=model.config.initializer_range)
        model.borrow(target)
        return model.train(target.training)

    def borrow(self, target: PreTrainedModel) -> None:
        """Take the target's embedding, and of its head the rows of the tokens that are drafted.

        Raises
        ------
        ProblemError
            If it was trained for another target.
        """
        vectors = target.get_input_embeddings().weight
        if self._embedding and self._embedding[0] is vectors:
            return
        if fingerprint(target) != self.config.target:
            raise ProblemError(
                f"the draft layers were trained for another target than this {type(target).__name__}, whose embedding "
                "and head they share; pass that target, or train them for this one"
            )
        with torch.no_grad():
            for stand_in in (self.model.embed_tokens, self.lm_head):
                stand_in.weight.zero_()  # else a fingerprint would be of chance
        keep_fingerprint(self)
        self._embedding = (vectors,)  # in a tuple, lest it become a parameter, which would learn
        self.lm_head = lent_head(target, self.dtype, slice(None) if self.kept is None else self.tokens.long())
        if isinstance(target.get_output_embeddings(), PackedLinear) and not self.training:
            pack_layers(self)

    def vectors(self, tokens: torch.Tensor) -> torch.Tensor:
        """As `Conditioned.vectors`, shape (..., hidden); tokens from V on are masks."""
        vocab = self.config.vocab_size
        read = to_one_size(embedding(tokens.clamp(max=vocab - 1), self._embedding[0]))  # else states drown it
        vectors: torch.Tensor = self.token(read.to(self.dtype))
        if not self.config.masks:
            return vectors
        return torch.where((tokens >= vocab).unsqueeze(-1), self.masks[(tokens - vocab).clamp(min=0)], vectors)

    def added_of_own(self, outputs: torch.Tensor) -> torch.Tensor:
        """As `EagleLlama.added_of_own`, shape (..., hidden); with masks nothing is."""
        return torch.zeros_like(outputs) if self.config.masks else self.own(outputs)


AutoConfig.register(SharedConfig.model_type, SharedConfig)
AutoModelForCausalLM.register(SharedConfig, SharedLlama)

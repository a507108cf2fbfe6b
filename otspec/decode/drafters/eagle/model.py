"""EAGLE-style draft models, which read the target's hidden states token by token [li2024eagle; li2025eagle3].

With every token such a model reads the target's hidden states at the token before it, and where the target has not read
that, its own output there.  `EagleSettings.arithmetic` sets how:

``"fed"``
    Any draft model, with a map of the target's states and one of its own outputs added to the embeddings.  At first
    both are 0, which leaves the draft model as it is.
``"shared"``
    Layers between the target's own embedding and head, neither of which is copied, that read states after middle and
    high layers in the same way.  With *masks* they draft several tokens in one pass: a learnt vector stands for each
    token that is not known yet, which sees the text and the masks before it, so that its law is that of the token so
    many places on, whatever comes in between.  These laws are a product: drafts of one depth do not depend on those of
    another.
``"eagle1"``
    The layer of EAGLE and EAGLE-2 as it is published: one map takes the target's last hidden state and the embedding to
    a vector, and what comes out is to be such a state itself: it goes into the target's head, and back in.
``"eagle3"``
    That of EAGLE-3: the first layer's attention reads a map of three of the target's states beside the embedding, twice
    as wide; what comes out goes back in as it is, and by a norm into a head of the layer's own, which may have few of
    the target's tokens.

The published ones read nothing with the first token of a text, and so do not read that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.functional import embedding
from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from otspec.decode.drafters.decoders import ConditionedLayers, FolderConfig
from otspec.decode.drafters.eagle.layer import WideLayer, begin_norm, layer_settings
from otspec.decode.drafters.eagle.settings import FORMER, EagleSettings, settings_in
from otspec.decode.drafters.hidden_states import check_features, eagle3_layers, last_layer, rms_normalise
from otspec.decode.models.context import vocabulary
from otspec.decode.models.fingerprint import fingerprint, keep_fingerprint
from otspec.decode.models.head import SOFT_CAP, lent_head, softly_capped
from otspec.decode.models.passes.byte_rows import ByteRows
from otspec.decode.models.passes.conditioned import DraftVocabMixin
from otspec.decode.models.passes.packed import PackedLinear, as_bits, pack_layers
from otspec.errors import ProblemError
from otspec.kernels.byte_drafts import ByteDrafter
from otspec.laws import IntArray

EMBEDDING, HEAD = ("model.embed_tokens.weight",), ("lm_head.weight", "lm_head.bias")
BORROWED = (*EMBEDDING, *HEAD)
"""Weights that are the target's where a model does not have its own."""


class Eagle(DraftVocabMixin, ConditionedLayers):
    """A decoder that reads a target's hidden states; a fed one without them is the decoder of the same weights."""

    settings = EagleSettings
    model_type = "otspec_fed"
    read_settings = staticmethod(settings_in)
    lm_head: Any

    def __init__(self, config: Any) -> None:
        if fed := config.arithmetic == "fed":
            super().__init__(config)
        else:  # a row stands for what is borrowed later
            vocab, pad = config.vocab_size, config.pad_token_id
            config.vocab_size, config.pad_token_id = 1, None
            super().__init__(config)
            config.vocab_size, config.pad_token_id = vocab, pad
            self.vocab_size = self.model.vocab_size = vocab
        self._lent: tuple[torch.Tensor, ...] = ()
        if config.layer_norm:
            self.model.norm = nn.LayerNorm(config.hidden_size, config.rms_norm_eps)
        if config.head_bias:
            self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        if config.published:
            self._make_published(config)
        else:
            width, own = self.get_input_embeddings().embedding_dim, config.get_text_config().hidden_size
            self.seen = nn.Linear(config.feature_width * len(config.features), width, bias=False)
            if config.drafts_features or not fed:
                self.token = nn.Linear(width, width)
            if config.masks:
                self.masks = nn.Parameter(torch.zeros(config.masks, width))
            elif not config.drafts_features:
                self.own = nn.Linear(own, width, bias=False)
        if not fed:
            self.register_buffer("tokens", torch.zeros(config.draft_vocab_size, dtype=torch.int32))
            lent = (*(() if config.own_embedding else EMBEDDING), *(() if config.own_head else HEAD))
            self._keys_to_ignore_on_save = self._keys_to_ignore_on_load_missing = set(lent)

    def _make_published(self, config: Any) -> None:
        """The parts of EAGLE's layers, in place of a decoder's."""
        width, eps, states = config.hidden_size, config.rms_norm_eps, config.feature_layers * config.feature_width
        first, norm = self.model.layers[0], type(self.model.norm)
        del self.lm_head  # comes last, as fingerprints of such layers have it
        self.model.norm = nn.Identity()
        self.model.embed_tokens = nn.Embedding(config.vocab_size if config.own_embedding else 0, width)
        self.model.embed_tokens.weight.requires_grad_(False)
        self.norm: nn.Module
        if config.arithmetic == "eagle1":
            first.input_layernorm = nn.Identity()
            self.fc, self.norm = nn.Linear(2 * width, width, config.bias), nn.Identity()
        else:
            self.model.layers[0] = WideLayer(first, width, eps, config.norm_before_residual)
            self.fc, self.norm = nn.Linear(states, width, bias=False), norm(width, eps)
        if config.norm_before_fc:
            self.input_norm = norm(states, eps)
        if config.fc_norm:
            self.fc_norm = nn.ModuleList(norm(config.feature_width, eps) for _ in range(config.feature_layers))
        rows = config.draft_vocab_size or config.vocab_size
        self.lm_head = nn.Linear(width, rows, bias=False) if config.own_head else nn.Identity()
        self.post_init()

    @classmethod
    def of(cls, draft: PreTrainedModel, features: Sequence[int], width: int) -> Any:
        """A copy of a draft model with maps that do nothing yet.

        Parameters
        ----------
        draft : PreTrainedModel
        features : sequence of int
            After how many of the target's layers its hidden states are read.
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

    @classmethod
    def made_of(cls, decoder: str, **settings: Any) -> Any:
        """Layers as those of an architecture, by its name; with the settings of `EagleSettings` and of its own."""
        made = Eagle.class_of(MODEL_FOR_CAUSAL_LM_MAPPING[CONFIG_MAPPING[decoder]])
        return made(made.config_class(decoder_type=decoder, **settings))

    @classmethod
    def of_target(
        cls,
        target: PreTrainedModel,
        arithmetic: str,
        features: Sequence[int],
        masks: int = 0,
        tokens: IntArray | None = None,
    ) -> Any:
        """A layer for a target, as its own are, with weights that are random.

        A target that is not made as a Llama is gets the layer of a Llama of its width.  The last norm of a shared layer
        and the head of EAGLE-3's begin as the target's.

        Parameters
        ----------
        target : PreTrainedModel
        arithmetic : str
            One of `ARITHMETICS`, not ``"fed"``.
        features : sequence of int
            After how many of the target's layers its hidden states are read.
        masks : int
            Of shared layers.
        tokens : array of int, shape (k,), optional
            Those that are drafted, ascending; not by ``"eagle1"``.

        Raises
        ------
        ProblemError
            If the target's head cannot be had apart from the rest, or its logits are scaled.
        """
        shared, own_head = arithmetic == "shared", arithmetic == "eagle3"
        layer = layer_settings(target, shared=shared, own_head=own_head)
        model = Eagle.made_of(
            "llama",
            arithmetic=arithmetic,
            features=features,
            feature_width=target.config.get_text_config().hidden_size,
            masks=masks,
            draft_vocab_size=0 if tokens is None else len(tokens),
            target=fingerprint(target) if shared else "",
            own_head=own_head,
            **layer,
        ).to(target.device)
        with torch.no_grad():
            if tokens is not None:
                model.tokens.copy_(torch.as_tensor(tokens))
            if shared:
                begin_norm(model.model.norm, target)
            if masks:
                nn.init.normal_(model.masks, std=model.config.initializer_range)
            if own_head:
                model.lm_head.weight.copy_(lent_head(target, target.dtype, model._rows()).weight)
        model.borrow(target)
        return model.train(target.training)

    def borrow(self, target: PreTrainedModel) -> None:
        """Take what it lacks from the target: the embedding, and the head's rows of the tokens that are drafted.

        Raises
        ------
        ProblemError
            If it is for another target.
        """
        config, vectors = self.config, target.get_input_embeddings().weight
        if config.arithmetic == "fed" or (self._lent and self._lent[0] is vectors):
            return
        if config.published:
            self._fit(target)
        elif fingerprint(target) != config.target:
            raise ProblemError(
                f"the draft layers were trained for another target than this {type(target).__name__}, whose embedding "
                "and head they share; pass that target, or train them for this one"
            )
        else:
            with torch.no_grad():
                for stand_in in (self.model.embed_tokens, self.lm_head):
                    stand_in.weight.zero_()  # else a fingerprint would be of chance
            keep_fingerprint(self)  # before the head is the target's
        self._lent = (vectors,)  # in a tuple, lest it become a parameter, which would learn
        if not config.own_head:
            self.lm_head = lent_head(target, self.dtype, self._rows())
        head = target.get_output_embeddings()
        if isinstance(head, PackedLinear) and head.matrix.dtype == self.dtype and not self.training:
            keep_fingerprint(self)
            pack_layers(self, in_bytes=True)

    def _rows(self) -> torch.Tensor | slice:
        """Of the target's head."""
        return slice(None) if self.draft_tokens is None else self.tokens.long()

    def _fit(self, target: PreTrainedModel) -> None:
        """Set which of a target's layers published ones read.

        Raises
        ------
        ProblemError
            If it is of another size.
        """
        config, width = self.config, int(target.config.get_text_config().hidden_size)
        embedded = config.hidden_size if config.own_embedding else target.get_input_embeddings().weight.shape[1]
        for what, own, its in (
            ("hidden states of width", config.feature_width, width),
            ("vocabularies of size", config.vocab_size, vocabulary(target)),
            ("embeddings of width", config.hidden_size, embedded),
        ):
            if own != its:
                raise ProblemError(
                    f"the draft model is for {what} {own}, and the target's is {its}; it belongs to another target"
                )
        if config.arithmetic == "eagle3":
            config.features = list(check_features(config.features or eagle3_layers(target), target))
        else:
            config.features = list(last_layer(target))

    @property
    def is_lean(self) -> bool:
        """As `Conditioned.is_lean`."""
        return self._cap is None

    @property
    def is_served(self) -> bool:
        """Whether engines compute the same: they know published layers, and no soft cap behind them."""
        return self.config.published and self._cap is None

    @property
    def last_norm(self) -> nn.Module:
        """As `Conditioned.last_norm`."""
        return self.norm if self.config.published else super().last_norm

    @property
    def gives_normed(self) -> bool:
        """As `Conditioned.gives_normed`."""
        return not self.config.published or bool(self.config.norm_output)

    def begin(self, tokens: torch.Tensor, added: torch.Tensor | None) -> torch.Tensor:
        """As `Conditioned.begin`; tokens from V on are masks."""
        if not self.config.published:
            return super().begin(tokens, added)
        vectors = self.vectors(tokens)
        both = torch.cat((vectors, torch.zeros_like(vectors) if added is None else added), dim=-1)
        read: torch.Tensor = self.fc(both) if self.config.arithmetic == "eagle1" else both
        return read

    def vectors(self, tokens: torch.Tensor) -> torch.Tensor:
        """As `Conditioned.vectors`; tokens from V on are masks."""
        config, vocab = self.config, self.config.vocab_size
        if config.own_embedding:
            found = super().vectors(tokens)
        else:
            found = embedding(tokens.clamp(max=vocab - 1) if config.masks else tokens, self._lent[0])
        if config.arithmetic == "shared":  # else states drown it
            found = rms_normalise(found)
        if not config.own_embedding:
            found = found.to(self.dtype)
        if not config.published and (config.drafts_features or config.arithmetic == "shared"):
            found = self.token(found)
        if config.masks:
            return torch.where((tokens >= vocab).unsqueeze(-1), self.masks[(tokens - vocab).clamp(min=0)], found)
        return found

    def conditioning(self, features: torch.Tensor) -> torch.Tensor:
        """What is read with tokens, shape (..., hidden), of the target's states at the tokens before them.

        Parameters
        ----------
        features : Tensor, shape (..., len(features), feature_width)
            0 where there is no token before.
        """
        config = self.config
        if not config.published:
            added: torch.Tensor = self.seen(rms_normalise(features).flatten(-2).to(self.dtype))
            return added
        states = features.to(self.dtype)
        if config.arithmetic == "eagle1":
            return states.squeeze(-2)
        if config.fc_norm:
            states = torch.stack([norm(one) for norm, one in zip(self.fc_norm, states.unbind(-2), strict=True)], -2)
        states = states.flatten(-2)
        mapped: torch.Tensor = self.fc(self.input_norm(states) if config.norm_before_fc else states)
        return mapped

    def added_of_own(self, outputs: torch.Tensor) -> torch.Tensor:
        """The same where the model's own outputs at the tokens before stand in for the target's; nothing with masks."""
        config = self.config
        if config.published:
            return outputs
        if config.masks:
            return torch.zeros_like(outputs)
        if config.drafts_features:
            return self.conditioning(outputs.unsqueeze(-2))
        added: torch.Tensor = self.own(outputs)
        return added

    def in_bytes(self, rows: ByteRows) -> ByteDrafter | None:
        """Its own outputs and drafted tokens to outputs and logits, by weights of 8 bits; None with other inputs.

        Parameters
        ----------
        rows : ByteRows
            The layers and the head.
        """
        config = self.config
        if config.arithmetic != "shared" or config.masks or config.drafts_features:
            return None
        maps = [layer.matrix.in_bytes for layer in (self.token, self.own, self.seen) if isinstance(layer, PackedLinear)]
        token, own, seen = (one for one in maps if one is not None)
        return ByteDrafter(as_bits(self._lent[0]), token, own, seen, *rows.parts)

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
        """As the decoder, with `added` of shape (B, N, hidden) read beside the tokens; by default nothing is, or 0.

        The last of the hidden states are the outputs that go back in.
        """
        assert input_ids is not None
        read = self.begin(input_ids, added)
        more: Any = {"attention_mask": attention_mask, "position_ids": position_ids, "past_key_values": past_key_values}
        if not self.config.published:
            found = super().forward(inputs_embeds=read, logits_to_keep=logits_to_keep, **more, **settings)
            found.logits = softly_capped(found.logits, self._cap)
            return found
        outputs = self.model(inputs_embeds=read, use_cache=settings.get("use_cache"), **more).last_hidden_state
        normed = self.norm(outputs)
        states = (read,) * self.config.num_hidden_layers + (normed if self.gives_normed else outputs,)
        logits = softly_capped(self.lm_head(normed[:, -logits_to_keep:]), self._cap)
        return CausalLMOutputWithPast(logits=logits, past_key_values=past_key_values, hidden_states=states)

    @property
    def _cap(self) -> float | None:
        """Its target's soft cap, which a Llama does not have; a decoder that is fed bends its own logits."""
        in_place = self.config.arithmetic != "fed" or self.config.drafts_features
        cap: float | None = getattr(self.config, SOFT_CAP, None) if in_place else None
        return cap


FolderConfig.register(Eagle, *FORMER)

"""The configuration of an EAGLE-style draft model, and after how many of a target's layers EAGLE-3 reads states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PUBLISHED = ("eagle1", "eagle3")
"""Arithmetics of EAGLE's layers as they are published, which engines serve."""
ARITHMETICS = ("fed", "shared", *PUBLISHED)
FEATURE_LAYERS = 3
"""Hidden states of the target that EAGLE-3 reads."""


class EagleSettings:
    """The settings of an `Eagle` model besides those of its decoder.

    Parameters
    ----------
    arithmetic : str
        One of `ARITHMETICS`: see `otspec.decode.drafters.eagle.model` for what they compute.
    features : sequence of int
        After how many of the target's layers its hidden states are read; empty for published layers: after all of
        them, or those of `otspec.decode.drafters.hidden_states.eagle3_layers`.
    feature_width : int
        Their width.
    drafts_features : bool
        Whether its outputs are to be such hidden states, and are read as these are; EAGLE's always are.
    masks : int
        Tokens that shared layers draft at once beside the first; 0: token by token.
    draft_vocab_size : int
        How many of the target's tokens a layer drafts; 0: all.
    target : str
        Fingerprint of the target of shared layers.
    layer_norm, head_bias : bool
        Whether a layer's last norm takes the mean off, and whether its own head has a bias, as its target's do.
    bias : bool
        Whether the map of EAGLE has a bias.
    norm_before_residual, norm_before_fc, fc_norm, norm_output : bool
        Variants of EAGLE-3, by the names that vLLM and speculators have for them: whether what goes around the first
        layer's attention is normed; whether the target's states are before they are mapped, all as one vector or each
        for itself; and whether what goes back in is.
    own_embedding, own_head : bool, optional
        Whether it has these itself, as a draft model that is fed has; the others are the target's.
    **config
        Of the decoder.
    """

    def __init__(
        self,
        arithmetic: str = "fed",
        features: Sequence[int] = (),
        feature_width: int = 0,
        drafts_features: bool = False,
        masks: int = 0,
        draft_vocab_size: int = 0,
        target: str = "",
        layer_norm: bool = False,
        head_bias: bool = False,
        bias: bool = False,
        norm_before_residual: bool = False,
        norm_before_fc: bool = False,
        fc_norm: bool = False,
        norm_output: bool = False,
        own_embedding: bool | None = None,
        own_head: bool | None = None,
        **config: Any,
    ) -> None:
        fed = arithmetic == "fed"
        super().__init__(**(config if fed else config | {"tie_word_embeddings": False}))
        self.arithmetic, self.features, self.feature_width = arithmetic, list(features), feature_width
        self.drafts_features = drafts_features or arithmetic == "eagle1"
        self.masks, self.draft_vocab_size, self.target = masks, draft_vocab_size, target
        self.layer_norm, self.head_bias, self.bias = layer_norm, head_bias, bias
        self.norm_before_residual, self.norm_output = norm_before_residual, norm_output
        self.norm_before_fc, self.fc_norm = norm_before_fc, fc_norm
        self.own_embedding = fed if own_embedding is None else own_embedding
        self.own_head = fed if own_head is None else own_head

    @property
    def published(self) -> bool:
        """Whether it is a layer of EAGLE as others publish them."""
        return self.arithmetic in PUBLISHED

    @property
    def feature_layers(self) -> int:
        """How many hidden states of the target are read at a token."""
        return len(self.features) or (FEATURE_LAYERS if self.arithmetic == "eagle3" else 1)


FORMER = ("otspec_fed_llama", "otspec_shared_llama", "otspec_published_eagle")
"""Types in folders that were written when there was a class for each arithmetic."""


def settings_in(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a folder's configuration, by the names of `EagleSettings`, whatever version wrote it."""
    settings = {"draft_vocab_size" if name == "kept" else name: value for name, value in config.items()}
    if config.get("model_type") == "otspec_shared_llama":
        settings["arithmetic"] = "shared"
    if config.get("model_type") == "otspec_published_eagle":
        layer, version = dict(settings.pop("layer")), settings.pop("version")
        del settings["looked_at"]
        settings = layer | settings | {"arithmetic": f"eagle{version}", "decoder_type": layer["model_type"]}
    return settings

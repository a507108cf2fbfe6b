"""Settings of EAGLE's layers as they are published, and at which of the target's layers they look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel

from otspec.errors import ProblemError

LOOKED_AT = 3
"""Hidden states of the target that EAGLE-3 reads."""


class PublishedConfig(PreTrainedConfig):  # type: ignore[misc]  # transformers is untyped here
    """Of a `PublishedEagle`.

    Parameters
    ----------
    layer : dict
        The configuration of its layers, of a Llama, a Qwen2 or a Qwen3.
    version : int
        1, which stands for EAGLE-2 too, whose layer is the same; or 3.
    features : sequence of int
        After how many of the target's layers its hidden states are looked at; empty: after all of them for version 1,
        and as `eagle3_layers` for version 3.
    feature_width : int
        Their width.
    looked_at : int
        How many of them there are.
    kept : int
        How many of the target's tokens its head has; 0: all.
    bias : bool
        Whether the map of EAGLE has a bias.
    norm_before_residual, norm_before_fc, fc_norm, norm_output : bool
        Variants of EAGLE-3, by the names that vLLM and speculators have for them: whether what goes around the first
        layer's attention is normed; whether the target's states are before they are mapped, all as one vector or each
        for itself; and whether what goes back in is.
    own_embedding, own_head : bool
        Whether it has these itself; the others are the target's.
    **config
        What every configuration has.
    """

    model_type = "otspec_published_eagle"

    def __init__(
        self,
        layer: dict[str, Any] | None = None,
        version: int = 1,
        features: Sequence[int] = (),
        feature_width: int = 0,
        looked_at: int = 1,
        kept: int = 0,
        bias: bool = False,
        norm_before_residual: bool = False,
        norm_before_fc: bool = False,
        fc_norm: bool = False,
        norm_output: bool = False,
        own_embedding: bool = False,
        own_head: bool = False,
        **config: Any,
    ) -> None:
        config["tie_word_embeddings"] = False
        super().__init__(**config)
        self.layer = layer or AutoConfig.for_model("llama").to_dict()
        self.version, self.kept, self.bias = version, kept, bias
        self.features, self.feature_width, self.looked_at = list(features), feature_width, looked_at
        self.norm_before_residual, self.norm_output = norm_before_residual, norm_output
        self.norm_before_fc, self.fc_norm = norm_before_fc, fc_norm
        self.own_embedding, self.own_head = own_embedding, own_head
        for name in ("vocab_size", "hidden_size", "num_hidden_layers", "max_position_embeddings"):
            setattr(self, name, self.layer[name])

    @property
    def drafts_features(self) -> bool:
        """Whether its outputs stand for the target's hidden states."""
        return self.version == 1


def eagle3_layers(target: PreTrainedModel) -> tuple[int, int, int]:
    """What EAGLE-3 looks at where nothing else is said."""
    count = int(target.config.get_text_config().num_hidden_layers)
    return 2, count // 2, count - 3


def check_features(features: Sequence[int], target: PreTrainedModel) -> Sequence[int]:
    """The layers, if a target has them and they ascend: vLLM gives them in that order, and the last before its norm.

    Raises
    ------
    ProblemError
        If it has not.
    """
    count = int(target.config.get_text_config().num_hidden_layers)
    if not all(0 <= one < count for one in features) or list(features) != sorted(set(features)):
        raise ProblemError(
            f"EAGLE-3 looks at a target after {', '.join(map(str, features))} layers, which ascend and are not the "
            f"last, and this one has {count}; name others in config.json (eagle_aux_hidden_state_layer_ids)"
        )
    return features

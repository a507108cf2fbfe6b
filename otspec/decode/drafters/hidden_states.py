"""Hidden states of the target, as draft models take them that were trained for it."""

from __future__ import annotations

from typing import Any

import torch
from transformers import LlamaForCausalLM, PreTrainedModel

from otspec.errors import ProblemError


def three_layers(target: PreTrainedModel) -> tuple[int, int, int]:
    """Low, middle and high: after 3, half, and all but 2 of the layers [berdozsteering, Section 4].

    Where there are fewer than 6, low and high are at most as far from the middle as that.
    """
    count = int(target.config.get_text_config().num_hidden_layers)
    middle = count // 2
    return min(3, middle), middle, max(count - 2, middle)


def two_layers(target: PreTrainedModel) -> tuple[int, int]:
    """Middle and high of these: the low one brought nothing to layers that read every token by themselves."""
    return three_layers(target)[1:]


def last_layer(target: PreTrainedModel) -> tuple[int]:
    """What the target's head gets: after all layers."""
    return (int(target.config.get_text_config().num_hidden_layers),)


def shifted(features: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """The features that tokens see which come so many later, 0 where there are none yet.

    Parameters
    ----------
    features : Tensor, shape (B, N, layers, width)
    offsets : Tensor of int, shape (B, N)
    """
    source = torch.arange(features.shape[1], device=features.device) - offsets
    index = source.clamp(min=0)[..., None, None].expand(-1, -1, *features.shape[2:])
    return torch.where((source >= 0)[..., None, None], features.gather(1, index), 0)


def to_one_size(features: torch.Tensor) -> torch.Tensor:
    """Hidden states of root mean square 1, and 0 where they are 0.

    The residual stream of a model may grow a hundredfold from layer to layer, and has outliers; a map that begins at 0
    learns nothing from numbers of several hundred but noise.
    """
    exact = features.to(torch.promote_types(features.dtype, torch.float32))
    size = exact.square().mean(dim=-1, keepdim=True).sqrt()
    return torch.where(size > 0, exact / size, 0.0)


def configuration_of(draft: LlamaForCausalLM) -> dict[str, Any]:
    """What a draft model's configuration says, but for its class.

    Raises
    ------
    ProblemError
        If the model is no Llama.
    """
    if type(draft) is not LlamaForCausalLM:
        raise ProblemError(
            f"the draft model is a {type(draft).__name__}; what looks at a target is made of a LlamaForCausalLM"
        )
    return {name: value for name, value in draft.config.to_dict().items() if name not in LEFT_OUT}


LEFT_OUT = ("architectures", "model_type", "transformers_version", "dtype", "torch_dtype")
"""What a configuration says of the class, which is another now."""

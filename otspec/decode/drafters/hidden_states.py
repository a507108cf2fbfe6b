"""Hidden states of the target, as draft models take them that were trained for it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import rms_norm
from transformers import PreTrainedModel

from otspec.decode.models.context import check_model, vocabulary
from otspec.decode.models.head import Head, without_head
from otspec.decode.models.self_check import TOLERANCE
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


def eagle3_layers(target: PreTrainedModel) -> tuple[int, int, int]:
    """The layers of EAGLE-3 by default."""
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
            f"EAGLE-3 reads a target after {', '.join(map(str, features))} layers, which ascend and are not the "
            f"last, and this one has {count}; name others in config.json (eagle_aux_hidden_state_layer_ids)"
        )
    return features


def head_of(target: PreTrainedModel, *, in_place: bool = False) -> Head:
    """The target's head, as it makes logits of the last hidden state; not copied, but where the target scales them.

    Parameters
    ----------
    target : PreTrainedModel
    in_place : bool
        Whether only the target's own weights may be used.

    Raises
    ------
    ProblemError
        If it cannot be had apart from the rest, or makes them of something else.
    """
    check_model(target)
    try:
        head = without_head(target)[1]
        scale = _scale(target, head)
    except ProblemError as error:
        raise ProblemError(
            f"a draft model on hidden states begins as the head of its target, and {type(target).__name__} has none "
            "that is a linear layer, with a soft cap at most; train a draft model of its own (distilled, sd2)"
        ) from error
    if scale == 1.0:
        return head
    if in_place:
        raise ProblemError(
            f"{type(target).__name__} multiplies its head's logits by {scale:.4g}, which a draft model that shares the "
            "head does not do; train one with a head of its own (eagle3, medusa)"
        )
    return Head(head.weight * scale, None if head.bias is None else head.bias * scale, head.cap)


SCALED = 0.01
"""How far from 1 a scale of logits is no rounding."""


@torch.no_grad()
def _scale(target: PreTrainedModel, head: Head) -> float:
    """What a target multiplies its head's logits by, as Cohere's and Granite do; it is called with two tokens.

    Raises
    ------
    ProblemError
        If these are not the logits of its last hidden state.
    """
    tokens = torch.arange(2, device=target.device)[None] % vocabulary(target)
    found = target(input_ids=tokens, use_cache=False, output_hidden_states=True)
    logits, plain = found.logits.double(), head(found.hidden_states[-1].to(head.weight.dtype)).double()
    scale = float((logits * plain).sum() / plain.square().sum())
    scale = scale if abs(scale - 1) > SCALED else 1.0
    if not (logits - scale * plain).std() <= TOLERANCE.get(target.dtype, 2.0**-3) * logits.std():
        raise ProblemError(f"the last hidden states of {type(target).__name__} are not what its head gets")
    return scale


def shifted(features: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """The features, shape (B, N, layers, width), which tokens so many later see, 0 where there are none."""
    source = torch.arange(features.shape[1], device=features.device) - offsets
    index = source.clamp(min=0)[..., None, None].expand(-1, -1, *features.shape[2:])
    return torch.where((source >= 0)[..., None, None], features.gather(1, index), 0)


def rms_normalise(features: torch.Tensor) -> torch.Tensor:
    """Hidden states of root mean square 1, and 0 where they are 0.

    The residual stream of a model may grow a hundredfold from layer to layer, and has outliers; a map that begins at 0
    learns nothing from numbers of several hundred but noise.
    """
    exact = features.to(torch.promote_types(features.dtype, torch.float32))
    return rms_norm(exact, exact.shape[-1:], eps=torch.finfo(exact.dtype).tiny)

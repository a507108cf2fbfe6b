"""What a model's own generation configuration does to its text, beside temperature, top-k and top-p."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ALWAYS: Mapping[str, Any] = {
    "guidance_scale": 1,
    "sequence_bias": None,
    "repetition_penalty": 1,
    "no_repeat_ngram_size": 0,
    "bad_words_ids": None,
    "min_length": 0,
    "min_new_tokens": 0,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "remove_invalid_values": False,
    "exponential_decay_length_penalty": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "watermarking_config": None,
    "num_beams": 1,
    "max_time": None,
    "stop_strings": None,
}
"""Fields that act on any text, each with the value at which it does nothing; None does nothing in any case."""
SAMPLED: Mapping[str, Any] = {"top_h": None, "min_p": 0, "typical_p": 1, "epsilon_cutoff": 0, "eta_cutoff": 0}
"""The same of fields that act where tokens are sampled.

Temperature, top-k and top-p are not among them: decoding always sets its own.
"""


def own_config(model: PreTrainedModel, *, greedy: bool = False) -> dict[str, Any]:
    """The settings of a model's own generation configuration that act on its text, by the names of transformers.

    Parameters
    ----------
    model : PreTrainedModel
        With the `generation_config` of its folder, which transformers applies wherever a call sets nothing else.
    greedy : bool
        Whether texts are decoded greedily, where truncations do nothing.

    Returns
    -------
    dict
        Of values as in JSON; empty where the text has the law of the logits.

    Examples
    --------
    >>> from otspec.decode import shipped
    >>> from otspec.decode.models.own_config import own_config
    >>> own_config(shipped.load().target)
    {}
    """
    config = getattr(model, "generation_config", None)
    known = {} if config is None else config.to_dict()
    neutral = {**ALWAYS, **({} if greedy else SAMPLED)}
    return {name: _plain(known[name]) for name, idle in neutral.items() if _acts(known.get(name), idle)}


def left_out(model: PreTrainedModel, settings: Mapping[str, Any]) -> dict[str, None]:
    """Keywords of `generate` by which a model's own configuration has no effect beside the settings of a call.

    Parameters
    ----------
    model : PreTrainedModel
    settings : mapping
        The keywords of the call.
    """
    config = settings.get("generation_config")
    return {name: None for name in own_config(model) if name not in settings and getattr(config, name, None) is None}


def drop_own_config(model: PreTrainedModel) -> None:
    """Make a model's text follow the law of its logits; the tokens that begin, end and fill a text stay."""
    if acting := own_config(model):
        model.generation_config = copy.deepcopy(model.generation_config)
        for name in acting:
            setattr(model.generation_config, name, None)


def _acts(value: Any, idle: Any) -> bool:
    return value is not None and value != idle and value not in ([], {}, ())


def _plain(value: Any) -> Any:
    """A value as JSON has it: tokens may be the keys of a mapping, or a tensor."""
    if isinstance(value, Mapping) and not all(isinstance(key, str) for key in value):
        return [[_plain(key), _plain(one)] for key, one in value.items()]
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    value = value.tolist() if hasattr(value, "tolist") else value
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value

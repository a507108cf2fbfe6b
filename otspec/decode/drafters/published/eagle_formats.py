"""EAGLE's layers in folders of SafeAILab's EAGLE and of speculators, which vLLM and SGLang read too.

Names and shapes are those of the layers' own code [li2024eagle; li2025eagle3]: ``layers.0.`` or ``midlayer.`` or
``transformer.``, ``fc``, ``norm``, ``lm_head``, ``embed_tokens``, and ``d2t`` with ``t2d``, the target's token of each
row of the head, less that row, and whether each of the target's tokens has one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from transformers import AutoConfig, LlamaConfig, Qwen2Config, Qwen3Config

from otspec.decode.drafters.decoders import LEFT_OUT
from otspec.decode.drafters.eagle.model import Eagle
from otspec.decode.drafters.published.checkpoint import SAYS_NOTHING, Checkpoint
from otspec.decode.drafters.published.layer_settings import OF_ROPE, PARAMETERS, check_sizes, rope_of

FAMILIES = {"llama": LlamaConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}
"""Whose layers are read, by the name in ``model_type``; the tensors show which it is."""
VARIANTS = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")
"""Of EAGLE-3, and False by default."""
LAYERS = "eagle_aux_hidden_state_layer_ids"
OF_EAGLE3 = {*VARIANTS, LAYERS, "draft_vocab_size", "target_hidden_size", "eagle_config", "embed_requires_grad"}
SPECULATORS = {
    *("speculators_model_type", "speculators_version", "speculators_config", "transformer_layer_config"),
    "transformer_layer_architecture",
}
FIRST = re.compile(r"^(midlayer|transformer)\.")
"""Names of the first layer beside ``layers.0.``."""
Q = "layers.0.self_attn.q_proj.weight"


def eagle(checkpoint: Checkpoint) -> Eagle:
    """EAGLE's layer, of the first or the second version.

    Raises
    ------
    DataError
        If a setting or a tensor is not known, or missing.
    """
    return _first_version(checkpoint, checkpoint.config, {"bias"})


def speculators_eagle(checkpoint: Checkpoint) -> Eagle:
    """The same of speculators, which wrote it in its early versions; the rest as in `eagle`."""
    if checkpoint.setting("layernorms", bool, False):
        raise checkpoint.refusal("its setting 'layernorms' is on, and what is then fed back is nowhere specified")
    checkpoint.check_settings(checkpoint.config, {*SPECULATORS, "layernorms", "fusion_bias"})
    return _first_version(checkpoint, checkpoint.setting("transformer_layer_config", dict), set())


def eagle3(checkpoint: Checkpoint) -> Eagle:
    """EAGLE-3's layer; parameters as in `eagle`."""
    return _third_version(checkpoint, checkpoint.config, OF_EAGLE3)


def speculators_eagle3(checkpoint: Checkpoint) -> Eagle:
    """The same of speculators, with layers behind it if there are; parameters as in `eagle`."""
    if "norm_before_residual" not in checkpoint.config:
        raise checkpoint.refusal("it has no 'norm_before_residual', which its readers take for True or for False")
    checkpoint.check_settings(checkpoint.config, SPECULATORS | OF_EAGLE3)
    return _third_version(checkpoint, checkpoint.setting("transformer_layer_config", dict), set())


def _first_version(checkpoint: Checkpoint, config: Mapping[str, Any], known: set[str]) -> Eagle:
    layer = _layer(checkpoint, config, known)
    bias = any(name.endswith("fc.bias") for name in checkpoint.names)
    width = layer["hidden_size"]
    model = Eagle.made_of(arithmetic="eagle1", feature_width=width, bias=bias, **_own(checkpoint), **layer)
    return checkpoint.fill(model, _own_name, {})


def _third_version(checkpoint: Checkpoint, config: Mapping[str, Any], known: set[str]) -> Eagle:
    layer = _layer(checkpoint, config, known)
    outer = checkpoint.config
    inner = checkpoint.setting("eagle_config", dict, {})
    checkpoint.check_settings(inner, {*VARIANTS, LAYERS, "use_aux_hidden_state"}, "eagle_config")
    if inner.get("use_aux_hidden_state") is False:
        raise checkpoint.refusal("its setting 'use_aux_hidden_state' is off: it reads no layer but the last")
    features = checkpoint.setting(LAYERS, list, [], {**outer, **inner})
    if not all(type(one) is int for one in features):
        raise checkpoint.refusal(f"its setting {LAYERS!r} is {features!r}, and numbers of layers are wanted")
    size = checkpoint.setting("draft_vocab_size", int, layer["vocab_size"])
    vocab = layer["vocab_size"]
    tokens = _tokens(checkpoint, size, vocab) if size != vocab or "d2t" in checkpoint.names else None
    if size == vocab and tokens is not None and torch.equal(tokens, torch.arange(vocab)):
        tokens = None  # the head is in the target's order
    model = Eagle.made_of(
        arithmetic="eagle3",
        features=features,
        feature_width=checkpoint.setting("target_hidden_size", int, layer["hidden_size"]),
        draft_vocab_size=0 if tokens is None else size,
        **{name: checkpoint.setting(name, bool, False, {**outer, **inner}) for name in VARIANTS},
        **_own(checkpoint) | {"own_head": True},
        **layer,
    )
    return checkpoint.fill(model, _own_name, {} if tokens is None else {"tokens": tokens.int()})


def _own(checkpoint: Checkpoint) -> dict[str, Any]:
    names = checkpoint.names
    return {"own_embedding": "embed_tokens.weight" in names, "own_head": "lm_head.weight" in names}


def _own_name(name: str) -> str | None:
    """The name of a tensor in an `Eagle`."""
    name = FIRST.sub("layers.0.", name).replace("fusion_fc.", "fc.")
    if name in ("d2t", "t2d"):
        return None
    return f"model.{name}" if name.startswith(("layers.", "embed_tokens.")) else name


def _tokens(checkpoint: Checkpoint, size: int, vocab: int) -> torch.Tensor:
    """The target's token of each row of the head, shape (kept,).

    Raises
    ------
    DataError
        If ``d2t`` does not name them, or ``t2d`` names others.
    """
    there = checkpoint.tensors
    if size < 1:
        raise checkpoint.refusal(f"its setting 'draft_vocab_size' is {size}, and at least 1 is wanted")
    if missing := ({"d2t"} if size == vocab else {"d2t", "t2d"}) - there.keys():
        raise checkpoint.refusal(f"its head has {size} of {vocab} tokens, and there is no {min(missing)!r}")
    tokens = torch.arange(size) + there["d2t"].long() if there["d2t"].shape == (size,) else torch.empty(0)
    has = torch.zeros(vocab, dtype=torch.bool)
    if tokens.numel() and tokens.min() >= 0 and tokens.max() < vocab:
        has[tokens] = True
    if int(has.sum()) != size:
        raise checkpoint.refusal(f"its 'd2t' does not name {size} different tokens of {vocab}")
    if "t2d" in there and not torch.equal(has, there["t2d"].bool()):
        raise checkpoint.refusal("its 'd2t' and 't2d' do not name the same tokens")
    return tokens


def _layer(checkpoint: Checkpoint, config: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    """The configuration of its layers, of the family that its tensors are of.

    Raises
    ------
    DataError
        If a setting is not known, or the layers are of no family that is read.
    """
    kind = config.get("model_type", "llama")
    if kind not in FAMILIES:
        raise checkpoint.refusal(f"its layers are of a {kind!r}, and those of {', '.join(FAMILIES)} are read")
    names = {FIRST.sub("layers.0.", name) for name in checkpoint.names}
    biased = {part for part in "qo" if Q.replace("q_proj.weight", f"{part}_proj.bias") in names}
    kind = "qwen3" if Q.replace("q_proj", "q_norm") in names else "qwen2" if biased == {"q"} else "llama"
    family = FAMILIES[kind]
    every = {name for one in FAMILIES.values() for name in one().to_dict()} | {*OF_ROPE, "qkv_bias", "attention_bias"}
    checkpoint.check_settings(config, every | known)
    if "sliding_attention" in (config.get("layer_types") or ()) or config.get("use_sliding_window"):
        raise checkpoint.refusal("its layers attend to a window of tokens, and trees are read without one")
    defaults = family().to_dict()
    of_family = defaults.keys() - {"model_type", "layer_types", "sliding_window", *OF_ROPE, *SAYS_NOTHING}
    settings = {name: value for name, value in config.items() if name in of_family and value is not None}
    if kind == "llama":
        settings["attention_bias"] = bool(biased)
    for name in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"):
        checkpoint.setting(name, int, within=config)
    check_sizes(checkpoint, settings, defaults)
    if rope := rope_of(checkpoint, config):
        settings[PARAMETERS] = rope
    plain: dict[str, Any] = AutoConfig.for_model(kind, **settings).to_dict()
    return {name: value for name, value in plain.items() if name not in LEFT_OUT} | {"decoder": kind}

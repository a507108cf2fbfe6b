"""Heads in folders of Medusa, of vLLM, and of IBM's accelerators [cai2024medusa; wertheimer2024accelerating]."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

import torch

from otspec.decode.drafters.heads.model import MedusaConfig, MedusaHeads
from otspec.decode.drafters.published.checkpoint import Checkpoint
from otspec.decode.drafters.published.mlp import PublishedMlp, PublishedMlpConfig

OF_MEDUSA = {
    *("medusa_num_heads", "medusa_num_layers", "base_model_name_or_path", "num_heads", "num_hidden_layers"),
    *("hidden_size", "vocab_size", "medusa_fc_bias", "original_lm_head", "truncated_vocab_size", "version"),
    *("max_paths", "topk", "max_seq_len", "medusa_hidden_size", "medusa_vocab_size"),
}
BLOCK = re.compile(r"^(\d+)\.(\d+)\.linear\.(weight|bias)$|^blocks\.(\d+)\.layers\.(\d+)\.(weight|bias)$")
HEAD = re.compile(r"^(\d+)\.(\d+)\.weight$|^lm_heads\.(\d+)\.weight$")
"""Names of residual blocks and heads in FasterDecoding's Medusa and in vLLM."""
OF_MLP = {
    *("vocab_size", "emb_dim", "inner_dim", "n_predict", "tie_weights", "scale_input"),
    *("top_k_tokens_per_head", "n_candidates", "num_lookahead_tokens", "hidden_size"),
}
PARTS = {"proj": "project", "emb": "embedding", "ln": "norm", "head": "out"}
"""Names of parts in IBM's speculators, and in ours."""
STAGE = re.compile(r"^(?:speculator\.)?(proj|emb|ln|head)\.(\d+)\.(weight|bias)$")


def medusa(checkpoint: Checkpoint) -> MedusaHeads:
    """Medusa's heads: as many as there are tensors of, which its own code counts too.

    Raises
    ------
    DataError
        If a setting or a tensor is not known, or missing.
    """
    config = checkpoint.config
    if config.get("medusa_num_heads") is None or config.get("hidden_size") is None:
        checkpoint.check_settings(config, OF_MEDUSA)  # else there are the target's settings, too
    vocab = config.get("vocab_size")
    if config.get("truncated_vocab_size") not in (None, vocab) or "token_map" in checkpoint.names:
        raise checkpoint.refusal("its heads have few of the target's tokens ('truncated_vocab_size', 'token_map')")
    if config.get("original_lm_head"):
        raise checkpoint.refusal("its setting 'original_lm_head' is on: all heads end in one, which is not there")
    own = {name: _medusa_name(name) for name in checkpoint.names}
    weights = {mine: checkpoint.tensors[name] for name, mine in own.items() if mine}
    if "each.0.out.weight" not in weights:
        raise checkpoint.refusal("it has no tensor '0.1.weight' or 'lm_heads.0.weight', the first head's rows")
    count = len({name for name in weights if name.endswith("out.weight")})
    blocks = len({name for name in weights if name.startswith("each.0.blocks.") and name.endswith("weight")})
    heads = config.get("medusa_num_heads") or config.get("num_heads") or 0
    if heads > count:
        raise checkpoint.refusal(f"by its settings it has {heads} heads, and there are tensors of {count}")
    rows, width = weights["each.0.out.weight"].shape
    model = MedusaHeads(MedusaConfig(blocks, vocab_size=rows, features=[], feature_width=width, heads=count))
    biases = {name: torch.zeros_like(value) for name, value in model.state_dict().items() if name.endswith("bias")}
    missing = {name: value for name, value in biases.items() if name not in weights}
    if len(missing) not in (0, len(biases)):
        raise checkpoint.refusal(f"some of its residual blocks have a bias, and {min(missing)!r} does not")
    return checkpoint.fill(model, lambda name: own[name] or name, missing)


def _medusa_name(name: str) -> str | None:
    """The name of a tensor of Medusa's in `MedusaHeads`; None of one that is none."""
    name = re.sub(r"^(base_model\.)?medusa_heads?\.", "", name)
    if found := BLOCK.match(name):
        head, block, kind = (part for part in found.groups() if part is not None)
        return f"each.{head}.blocks.{block}.{kind}"
    if found := HEAD.match(name):
        return f"each.{found[1] or found[3]}.out.weight"
    return None


def mlp(checkpoint: Checkpoint) -> PublishedMlp:
    """IBM's MLP speculator; parameters as in `medusa`."""
    checkpoint.check_settings(checkpoint.config, OF_MLP)
    setting = checkpoint.setting
    width = setting("emb_dim", int, checkpoint.config.get("hidden_size"))
    stages, tied = setting("n_predict", int), setting("tie_weights", bool, False)
    model = PublishedMlp(
        PublishedMlpConfig(
            setting("scale_input", bool, False),
            width=setting("inner_dim", int, 0) or width,
            tied=tied,
            vocab_size=setting("vocab_size", int),
            features=[],
            feature_width=width,
            heads=stages,
        )
    )
    if tied:
        _check_tied(checkpoint)
    return checkpoint.fill(model, partial(_stage_name, tied=tied), {})


def _stage_name(name: str, *, tied: bool) -> str:
    """The name of a tensor in a `PublishedMlp`."""
    found = STAGE.match(name)
    if found is None:
        return name
    part, stage, kind = found.groups()
    return f"{PARTS[part]}.{min(int(stage), int(part == 'proj')) if tied else stage}.{kind}"


def _check_tied(checkpoint: Checkpoint) -> None:
    """Raise unless what is one tensor of all stages is one.

    Raises
    ------
    DataError
        If it is not.
    """
    seen: dict[str, torch.Tensor] = {}
    for name, tensor in sorted(checkpoint.tensors.items()):
        one: Mapping[str, torch.Tensor] = seen
        if not torch.equal(one.get(mine := _stage_name(name, tied=True), tensor), tensor):
            raise checkpoint.refusal(f"its setting 'tie_weights' is on, and {name!r} is not what other stages have")
        seen[mine] = tensor

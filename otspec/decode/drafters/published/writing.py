"""EAGLE's layers written as engines read them: as SafeAILab's EAGLE, and as speculators."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import CONFIG_MAPPING, PreTrainedModel

from otspec.decode.drafters.decoders import LEFT_OUT
from otspec.decode.drafters.eagle.model import Eagle
from otspec.decode.drafters.published.checkpoint import CONFIG
from otspec.decode.drafters.published.eagle_formats import LAYERS, VARIANTS
from otspec.decode.drafters.published.layer_settings import with_old_keys
from otspec.errors import DataError, ProblemError
from otspec.writing import named, write_text

VERSION = "0.7.0"
"""Of the speculators whose settings these are."""
ALGORITHM = "eagle3"


def write_published(
    model: PreTrainedModel, folder: Path, form: str, target: str | None = None, ahead: int | None = None
) -> None:
    """Write a draft model in a published format.

    Parameters
    ----------
    model : PreTrainedModel
    folder : Path
        Made if it is not there.
    form : str
        A name of `FORMATS`.
    target : str, optional
        The folder of its target, for speculators.
    ahead : int, optional
        How many tokens in a row engines draft where they are set to no other number, for speculators; by default 3.

    Raises
    ------
    ProblemError
        If the model is none of EAGLE's layers as they are published, or the format is for another version.
    DataError
        If the target's folder has no config.json.
    """
    if form not in FORMATS:
        raise ProblemError(f"no format {form!r}; known: {', '.join(FORMATS)}")
    if not isinstance(model, Eagle) or not model.is_served:
        raise ProblemError(
            f"{type(model).__name__} cannot be written as {form}, as engines do not compute what it computes; "
            "train one that is: otspec train eagle1, or eagle3"
        )
    settings = FORMATS[form](model.config, target, ahead or 3)
    folder.mkdir(parents=True, exist_ok=True)
    with named(folder):
        save_file(_tensors(model), folder / "model.safetensors", {"format": "pt"})
    kind = str(model.dtype).removeprefix("torch.")
    write_text(folder / CONFIG, json.dumps(settings | {"torch_dtype": kind}, indent=2) + "\n")


def _tensors(model: Eagle) -> dict[str, torch.Tensor]:
    """What is its own, by the names of EAGLE's own code."""
    own = model.config.own_head
    found = {
        name.removeprefix("model."): tensor.contiguous()
        for name, tensor in model.state_dict().items()
        if tensor.numel() and name != "tokens" and (own or not name.startswith("lm_head."))
    }
    if (ids := model.draft_tokens) is not None:
        tokens = torch.from_numpy(ids)
        found["d2t"] = tokens - torch.arange(len(tokens))
        found["t2d"] = torch.zeros(model.config.vocab_size, dtype=torch.bool).index_fill_(0, tokens, True)
    return found


def _layer(config: Any) -> dict[str, Any]:
    """The settings of its layers; engines know no other target by them."""
    names = CONFIG_MAPPING[config.decoder_type]().to_dict().keys() - {*LEFT_OUT, "_name_or_path"}
    layer = {name: one for name in sorted(names) if (one := getattr(config, name, None)) is not None}
    return with_old_keys({"model_type": config.decoder_type, **layer})


def _own(config: Any) -> dict[str, Any]:
    """Settings that only EAGLE-3 has."""
    return {
        "draft_vocab_size": config.draft_vocab_size or config.vocab_size,
        "target_hidden_size": config.feature_width,
        **{name: getattr(config, name) for name in VARIANTS},
        **({LAYERS: config.features} if config.features else {}),
    }


def _as_eagle(config: Any, target: str | None, ahead: int) -> dict[str, Any]:
    more = {"bias": config.bias} if config.arithmetic == "eagle1" else _own(config)
    return {"architectures": ["LlamaForCausalLM"], **_layer(config), **more}


def _as_speculators(config: Any, target: str | None, ahead: int) -> dict[str, Any]:
    if config.arithmetic != "eagle3":
        raise ProblemError("speculators have no first version of EAGLE any more; pass form='eagle', which vLLM reads")
    if target is None:
        raise ProblemError("speculators name the target; pass target=FOLDER")
    try:
        about = json.loads((Path(target) / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"the target's {CONFIG} cannot be read in {target}: {error}; otspec.decode.pair.save writes a "
            "model as a folder"
        ) from error
    return {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": ALGORITHM,
        "speculators_version": VERSION,
        "speculators_config": {
            "algorithm": ALGORITHM,
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": ahead}],
            "verifier": {"name_or_path": str(target), "architectures": about.get("architectures") or []},
        },
        "transformer_layer_config": _layer(config),
        **_own(config),
    }


FORMATS: Mapping[str, Callable[[Any, str | None, int], dict[str, Any]]] = {
    "eagle": _as_eagle,
    "speculators": _as_speculators,
}
"""Makes the settings of a folder, by the name of the format."""

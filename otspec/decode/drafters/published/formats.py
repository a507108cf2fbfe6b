"""Published formats of draft models, recognised by the config.json of a folder and the names of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from otspec.decode.drafters.published import eagle_formats, head_formats
from otspec.decode.drafters.published.checkpoint import Checkpoint, reading

Read = Callable[[Checkpoint], Any]

SPECULATORS: Mapping[str, Read] = {"eagle": eagle_formats.speculators_eagle, "eagle3": eagle_formats.speculators_eagle3}
"""By ``speculators_model_type``."""
TYPES: Mapping[str, Read] = {"medusa": head_formats.medusa, "mlp_speculator": head_formats.mlp}
"""By ``model_type``."""
WRAPPED = "eagle"
"""vLLM's type of a configuration with another inside."""


def read_published(folder: Path) -> Any:
    """The draft model in a folder, in the precision that it was saved in; None where it is in no published format.

    Raises
    ------
    DataError
        If the format is not read, or a setting or a tensor is not known, or missing.
    """
    checkpoint = Checkpoint.of(folder)
    with reading(folder, "a draft model"):
        read = None if checkpoint is None else _reader(checkpoint)
        return None if read is None else read(checkpoint)


def _reader(checkpoint: Checkpoint) -> Any:
    config = checkpoint.config
    kind = config.get("speculators_model_type")
    if kind is not None:
        if kind not in SPECULATORS:
            raise checkpoint.refusal(f"speculators call it {kind!r}, and of theirs {', '.join(SPECULATORS)} are read")
        return SPECULATORS[kind]
    if "medusa_num_heads" in config:
        return head_formats.medusa
    if (named := TYPES.get(config.get("model_type", ""))) is not None:
        return named
    if config.get("model_type") == WRAPPED:
        raise checkpoint.refusal("its model_type is 'eagle', vLLM's own wrapper; pass the folder that it was made of")
    if "dflash_config" in config or any("DFlash" in one for one in config.get("architectures") or ()):
        raise checkpoint.refusal("it is a DFlash, which drafts a block of tokens that see each other")
    return _by_names(checkpoint) if config.get("model_type", "llama") in eagle_formats.FAMILIES else None


def _by_names(checkpoint: Checkpoint) -> Read | None:
    """EAGLE's layers have no type of their own: theirs is that of a Llama."""
    names = checkpoint.names
    if "fc.weight" not in names:
        return None
    if {"midlayer.hidden_norm.weight", "layers.0.hidden_norm.weight"} & names:
        return eagle_formats.eagle3
    return eagle_formats.eagle if eagle_formats.Q in names else None

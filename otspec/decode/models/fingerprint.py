"""Models identified by their weights."""

from __future__ import annotations

import hashlib
import json
from weakref import WeakKeyDictionary

import torch
from transformers import PreTrainedModel

SAMPLED = 64
"""Values of every parameter that a fingerprint reads."""

_CACHED: WeakKeyDictionary[PreTrainedModel, str] = WeakKeyDictionary()


def fingerprint(model: PreTrainedModel) -> str:
    """Digest of a model's parameters: names, shapes, and the first values of each.

    Values are rounded to bfloat16, so that a model has one fingerprint in all precisions.
    """
    if model in _CACHED:
        return _CACHED[model]
    digest = hashlib.sha256()
    for name, weights in model.named_parameters():
        held = _loaded(model, name) if weights.is_meta else weights.detach()
        values = held.flatten()[:SAMPLED].bfloat16().float().tolist()
        digest.update(json.dumps([name, list(weights.shape), values]).encode())
    return digest.hexdigest()[:16]


def keep_fingerprint(model: PreTrainedModel) -> None:
    """Remember the fingerprint of a model whose weights stay as they are, and will not be seen any more."""
    _CACHED[model] = fingerprint(model)


def _loaded(model: PreTrainedModel, name: str) -> torch.Tensor:
    """A parameter that accelerate holds off the devices."""
    from transformers.integrations.accelerate import load_offloaded_parameter  # of late: not in every transformers

    found: torch.Tensor = load_offloaded_parameter(model, name)
    return found

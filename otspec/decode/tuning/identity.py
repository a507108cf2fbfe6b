"""What was measured: models by their weights, and the machine that they ran on."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from typing import Any

import torch
from transformers import PreTrainedModel

from otspec.reporting.machine import processor, versions

SAMPLED = 64
"""Values of every parameter that a fingerprint looks at."""


def fingerprint(model: PreTrainedModel) -> str:
    """Digest of a model's parameters: names, shapes, and the first values of each.

    Values are rounded to bfloat16, so that a model has one fingerprint in all precisions.
    """
    digest = hashlib.sha256()
    for name, weights in model.named_parameters():
        values = weights.detach().flatten()[:SAMPLED].bfloat16().float().tolist()
        digest.update(json.dumps([name, list(weights.shape), values]).encode())
    return digest.hexdigest()[:16]


def machine(model: PreTrainedModel) -> dict[str, Any]:
    """What times depend on besides the models: device, precision, threads and versions."""
    device = torch.cuda.get_device_name(model.device) if model.device.type == "cuda" else model.device.type
    return {
        "device": device,
        "dtype": str(model.dtype).removeprefix("torch."),
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **versions("torch", "transformers"),
    }


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs, each in a few words, in the order of the first."""
    return [f"{name} {now.get(name)} (it was {value})" for name, value in then.items() if now.get(name) != value]

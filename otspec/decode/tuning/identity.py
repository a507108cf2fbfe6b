"""The machine that was measured on, and how another differs from it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import torch
from transformers import PreTrainedModel

from otspec.reporting.machine import processor, versions


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

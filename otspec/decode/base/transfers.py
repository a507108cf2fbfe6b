"""From the host to the device of the models, without waiting for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def to_device(array: np.ndarray[Any, Any], device: torch.device) -> torch.Tensor:
    """A copy of an array on a device; the array itself on the CPU.

    Memory that is not pinned is read before the call returns, so the array may change afterwards.
    """
    return torch.from_numpy(array).to(device, non_blocking=True)

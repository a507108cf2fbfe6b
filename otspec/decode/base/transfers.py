"""Between the host and the device of the models, without waiting for more than has to be there."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def to_device(array: np.ndarray[Any, Any], device: torch.device) -> torch.Tensor:
    """A copy of an array on a device; the array itself on the CPU.

    Memory that is not pinned is read before the call returns, so the array may change afterwards.
    """
    return torch.from_numpy(array).to(device, non_blocking=True)


class HostCopy:
    """A copy of a tensor that comes to the host while its device goes on with later work.

    Parameters
    ----------
    tensor : Tensor
        Work that overwrites it may be launched at once.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self._there: torch.cuda.Event | None = None
        self._tensor = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        self._tensor.copy_(tensor, non_blocking=True)
        if tensor.is_cuda:
            self._there = torch.cuda.Event()
            self._there.record(torch.cuda.current_stream(tensor.device))

    def numpy(self) -> np.ndarray[Any, Any]:
        """The numbers, for which the host waits."""
        if self._there is not None:
            self._there.synchronize()
        return self._tensor.cpu().numpy()

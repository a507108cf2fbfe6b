"""A device of tensors without numbers, on any machine: what would wait for a GPU, or mixes devices, raises there.

Its tensors are torch's fake ones, which know their shapes, types and devices.  `item`, `tolist` and `bool` raise, for
there is no number to wait for, and so do operations across devices.  What comes to the host comes by
`Tensor.cpu().numpy()`, is counted, and holds stand-ins.  To the package it is a device as a GPU is, that Triton and
CUDA graphs do not run on.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.overrides import TorchFunctionMode

NAME = "without_numbers"
"""Of the device, as `torch.device` has it: the one that torch leaves to others."""

BACKEND = SimpleNamespace(
    is_available=lambda: False,  # so that nobody chooses it
    is_initialized=lambda: True,
    device_count=lambda: 0,  # of which a generator would have to be kept
    current_device=lambda: 0,
    _is_in_bad_fork=lambda: False,
    manual_seed_all=lambda seed: None,
)
"""What torch asks of a device's module; nothing runs there."""


@cache
def device() -> torch.device:
    """The device, which is registered with torch once a process."""
    backends = pytest.importorskip("torch.utils.backend_registration")
    setup = getattr(backends, "_setup_privateuseone_for_python_backend", None)
    if setup is None:
        pytest.skip("torch has no devices written in Python before 2.9")
    setup(NAME, BACKEND)
    return torch.device(NAME, 0)


class Copies(TorchFunctionMode):
    """Counts what comes to the host, filled with the numbers that it is told in turn, and draws nothing."""

    def __init__(self, shown: tuple[int, ...]) -> None:
        super().__init__()
        self.to_host: list[tuple[int, ...]] = []
        """Shapes of what came, in order."""
        self._told = cycle(shown)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Stand in for what needs numbers, or a generator of the device."""
        kwargs = dict(kwargs or {})
        if getattr(func, "__name__", "") == "numpy" and isinstance(args[0], FakeTensor):
            shape, dtype = tuple(args[0].shape), str(args[0].dtype).removeprefix("torch.")
            self.to_host.append(shape)
            return np.full(shape, next(self._told), dtype=dtype)
        if kwargs.get("generator") is not None:
            kwargs["generator"] = None
        return func(*args, **kwargs)


class AnyGenerator(torch.Generator):
    """One of the host, whatever device is asked for."""

    def __new__(cls, device: Any = "cpu") -> Any:
        """As `torch.Generator` is made."""
        return super().__new__(cls)


@contextmanager
def without_numbers(*shown: int) -> Iterator[Copies]:
    """All tensors that are made meanwhile are fake; what came to the host, filled with what is told, or 0."""
    device()
    with (
        pytest.MonkeyPatch.context() as patch,
        FakeTensorMode(allow_non_fake_inputs=True),
        Copies(shown or (0,)) as found,
    ):
        patch.setattr(torch, "Generator", AnyGenerator)
        yield found


def there(module: Any) -> Any:
    """A copy of a module on the device; call it where tensors are fake."""
    with unset_fake_temporarily():
        module = copy.deepcopy(module)
    for part in module.modules():
        for name, one in part._parameters.items():
            if one is not None:
                part._parameters[name] = torch.nn.Parameter(one.to(device()), requires_grad=False)
        for name, one in part._buffers.items():
            if one is not None:
                part._buffers[name] = one.to(device())
    return module

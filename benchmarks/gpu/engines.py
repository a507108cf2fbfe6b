"""The engines' own functions, to be measured and audited beside ours, where a GPU is there and they can be imported.

It need not be a whole installation: a folder on the path with what an import of the function needs will do, which
docs/measured/device.md tells.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import metadata
from typing import Any, NamedTuple

import torch

from otspec.engines import flashinfer, sglang, vllm
from otspec.engines.loading import check_arguments
from otspec.errors import ProblemError
from otspec.extras import installed, require


class _Place(NamedTuple):
    distribution: str
    module: str
    ours: Callable[..., Any]
    """Of the same name as theirs."""


_PLACES = {
    "flashinfer": _Place("flashinfer-python", flashinfer.MODULES[0], flashinfer.chain_speculative_sampling),
    "sglang": _Place("sglang", sglang.MODULE, sglang.tree_speculative_sampling_target_only),
    "vllm": _Place("vllm", vllm.MODULE, vllm.rejection_sample),
}
ENGINES = tuple(_PLACES)


def there(engine: str, device: torch.device) -> bool:
    """Whether an engine is on the path, and has a GPU to run on; whether it can be imported, `own` finds out."""
    return device.type == "cuda" and installed(engine)


@cache
def own(engine: str) -> Callable[..., Any]:
    """An engine's own function.

    Raises
    ------
    MissingExtra
        If the engine is not on the path.
    ImportError
        If something is not that it needs.
    ProblemError
        If the function takes other arguments than ours, or SGLang has none for this machine.
    """
    place = _PLACES[engine]
    name = place.ours.__name__
    theirs: Callable[..., Any] | None = getattr(require(place.module), name)
    if theirs is None:
        raise ProblemError(f"{engine} has no {name} for this machine; it has one for CUDA")
    check_arguments(f"{place.module}.{name}", theirs, place.ours)
    return theirs


def versions(device: torch.device) -> dict[str, str]:
    """Of the engines that are there."""
    return {engine: metadata.version(_PLACES[engine].distribution) for engine in ENGINES if there(engine, device)}

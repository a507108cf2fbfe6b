"""Whether a model computes what its class does and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn
from transformers import PreTrainedModel

from otspec.decode.models.passes.conditioned import OtspecModule

KNOWN = (nn.Linear, nn.Embedding, nn.ModuleList, nn.SiLU, nn.Identity)
ARCHITECTURES = ("transformers.models.", "transformers.activations")
LIBRARIES = ("transformers.", "torch.nn.", "otspec.")
RECORDING = "transformers.utils.output_capturing"
"""Hooks of this module record hidden states where they are requested, and do nothing else."""


def is_untouched(model: PreTrainedModel) -> bool:
    """Whether nobody put in a hook, a forward of their own, or layers of another library: what it does is fixed."""
    return _untouched(list(model.modules()))


def is_plain(model: PreTrainedModel) -> bool:
    """Whether, besides, all layers are those of its architecture: no adapters, no quantised weights."""
    modules = list(model.modules())
    return _untouched(modules) and all(
        kind.__module__.startswith(ARCHITECTURES) or kind in KNOWN or issubclass(kind, OtspecModule)
        for kind in set(map(type, modules))
    )


def is_spread(model: PreTrainedModel) -> bool:
    """Whether a model is on several devices, or offloaded from any: its modules have hooks that move what they need."""
    places = set(getattr(model, "hf_device_map", {}).values())
    return len(places) > 1 or "disk" in places


def _untouched(modules: Sequence[nn.Module]) -> bool:
    """As `is_untouched`, of all modules of a model: it is called before every text, and some have thousands."""
    if any("forward" in vars(one) for one in modules):
        return False
    hooks = [hook for one in modules for own in (one._forward_hooks, one._forward_pre_hooks) for hook in own.values()]
    return all(getattr(hook, "__module__", None) == RECORDING for hook in hooks) and all(
        kind.__module__.startswith(LIBRARIES) for kind in set(map(type, modules))
    )

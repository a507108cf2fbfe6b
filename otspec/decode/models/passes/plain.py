"""Whether a model computes what its class says and nothing else."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel

from otspec.decode.models.passes.conditioned import OtspecModule

KNOWN = (nn.Linear, nn.Embedding, nn.ModuleList, nn.SiLU, nn.Identity)
ARCHITECTURES = ("transformers.models.", "transformers.activations")
LIBRARIES = ("transformers.", "torch.nn.", "otspec.")
RECORDING = "transformers.utils.output_capturing"
"""Hooks of this module look at hidden states where they are asked for, and do nothing else."""


def is_untouched(model: PreTrainedModel) -> bool:
    """Whether nobody put in a hook, a forward of their own, or layers of another library: what it does is settled."""
    return all(map(_is_untouched, model.modules()))


def is_plain(model: PreTrainedModel) -> bool:
    """Whether, besides, all layers are those of its architecture: no adapters, no quantised weights."""
    return is_untouched(model) and all(
        type(module).__module__.startswith(ARCHITECTURES) or type(module) in KNOWN or isinstance(module, OtspecModule)
        for module in model.modules()
    )


def is_spread(model: PreTrainedModel) -> bool:
    """Whether a model is on more than one device, or kept off any: its modules have hooks that move what they need."""
    places = set(getattr(model, "hf_device_map", {}).values())
    return len(places) > 1 or "disk" in places


def _is_untouched(module: nn.Module) -> bool:
    hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
    foreign = any(getattr(hook, "__module__", None) != RECORDING for hook in hooks) or "forward" in vars(module)
    return not foreign and type(module).__module__.startswith(LIBRARIES)

"""Draft models that the target steers: its hidden states are added to every layer's up-projection [berdozsteering].

The target's hidden states h, m, l after three of its layers, at the last token that it has read, make a steering vector
g = W_hml [h, m, l].  In every layer of the draft model W_s g is added to the up-projection of the SwiGLU, eq. (2).  At
first W_s is 0, which leaves the draft model as it is, and g = h + m + l.  Other than in the paper, h, m and l are
scaled to one size before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import pad
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.pytorch_utils import Conv1D

from otspec.decode.drafters.decoders import ConditionedLayers, FolderConfig, layers_of
from otspec.decode.drafters.hidden_states import rms_normalise
from otspec.decode.models.passes.conditioned import OtspecModule
from otspec.errors import ProblemError

PLACES = ("up", "after")
"""Where W_s g is added: to the up-projection, or, which is worse, to what the MLP gives."""

UP = ("up_proj", "c_fc", "fc1", "dense_h_to_4h", "fc_in")
"""Names of up-projections, in a SwiGLU and in an MLP that is not gated."""
GATE_UP = "gate_up_proj"
"""Their name where they are one with the gate, which comes first."""


class SteeredSettings:
    """The settings of a `Steered` model besides those of its decoder.

    Parameters
    ----------
    features : sequence of int
        After how many of the target's layers its hidden states are read: low, middle, high.
    feature_width : int
        Their width.
    place : str
        One of `PLACES`.
    **config
        Of the decoder.
    """

    def __init__(self, features: Sequence[int] = (), feature_width: int = 0, place: str = "up", **config: Any) -> None:
        super().__init__(**config)
        self.features = list(features)
        self.feature_width = feature_width
        self.place = place


class Projection(NamedTuple):
    """Where the up-projection of a layer is."""

    path: str
    """Of the module within the layer."""
    width: int
    """What it gives."""
    before: int
    """Of the gate, where the two are one."""

    @classmethod
    def of(cls, layer: nn.Module) -> Projection | None:
        """That of a layer, if there is one and no more: a mixture of experts has many."""
        known = (*UP, GATE_UP)
        found = [(path, one) for path, one in layer.named_modules() if path.rpartition(".")[2] in known]
        if len(found) != 1:
            return None
        [(path, up)] = found
        outputs = int(up.nf if isinstance(up, Conv1D) else up.out_features)
        before = outputs // 2 if path.endswith(GATE_UP) else 0
        return cls(path, outputs - before, before)

    def module(self, layer: nn.Module, place: str) -> nn.Module:
        """The module of a layer whose output is shifted: the projection, or the MLP around it."""
        return layer.get_submodule(self.path if place == "up" else self.path.rpartition(".")[0])


class Steering(OtspecModule, nn.Module):
    """From the target's hidden states to what is added in each layer."""

    hml: nn.Linear
    layers: nn.ModuleList

    def __init__(self, features: int, width: int, layers: int, added: int) -> None:
        super().__init__()
        self.hml = nn.Linear(features * width, width, bias=False)
        self.layers = nn.ModuleList(nn.Linear(width, added, bias=False) for _ in range(layers))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """W_s W_hml [h, m, l] of every layer, shape (layers, ..., added), from features of shape (..., 3, width)."""
        steering = self.hml(features.flatten(-2))
        return torch.stack([layer(steering) for layer in self.layers])

    @torch.no_grad()
    def begin(self) -> None:
        """Set g = h + m + l and W_s = 0."""
        width = self.hml.out_features
        self.hml.weight.copy_(torch.eye(width).repeat(1, self.hml.in_features // width))
        for weights in self.layers.parameters():
            weights.zero_()


class Steered(ConditionedLayers):
    """A decoder whose MLPs take a shift; without one it is the decoder of the same weights, to the last bit."""

    settings = SteeredSettings
    model_type = "otspec_steered"

    def __init__(self, config: Any) -> None:
        if config.place not in PLACES:
            raise ProblemError(f"place is {config.place!r}; known: {', '.join(PLACES)}")
        super().__init__(config)
        self._projections = self._found()
        added = self._projections[0].width if config.place == "up" else config.get_text_config().hidden_size
        self.steering = Steering(len(config.features), config.feature_width, len(self._projections), added)

    @classmethod
    def of(cls, draft: PreTrainedModel, features: Sequence[int], width: int, place: str = "up") -> Any:
        """A copy of a draft model with steering that does nothing yet.

        Parameters
        ----------
        draft : PreTrainedModel
        features : sequence of int
            After how many of the target's layers its hidden states are read.
        width : int
            Their width.
        place : str
            One of `PLACES`.

        Raises
        ------
        ProblemError
            If the model is no decoder of transformers, or its layers have not one MLP each.
        """
        model = Steered.copy_of(draft, features=features, feature_width=width, place=place)
        model.steering.begin()
        return model

    def _found(self) -> list[Projection]:
        """The up-projections of all layers.

        Raises
        ------
        ProblemError
            If one has none, or several, or they have several widths.
        """
        layers = layers_of(self)
        found = [projection for layer in layers if (projection := Projection.of(layer)) is not None]
        if len(found) < len(layers) or len({one.width for one in found}) > 1:
            raise ProblemError(
                f"the layers of {type(self).__bases__[1].__name__} have not one up-projection each, of one width and "
                f"known as {', '.join((*UP, GATE_UP))}, so that they cannot be steered; feed the draft model (eagle), "
                "or train what is made of the target (eagle1, medusa)"
            )
        return found

    @property
    def is_lean(self) -> bool:
        """As `Conditioned.is_lean`."""
        lean: bool = self.config.place == "up"
        return lean

    def shifts(self, features: torch.Tensor) -> torch.Tensor:
        """What the target's hidden states add to every layer, shape (layers, ..., added).

        Parameters
        ----------
        features : Tensor, shape (..., len(features), feature_width)
            0 for what the target has not read.
        """
        shifts: torch.Tensor = self.steering(rms_normalise(features).to(self.dtype))
        return shifts

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past_key_values: Any = None,
        logits_to_keep: int | torch.Tensor = 0,
        shifts: torch.Tensor | None = None,
        **settings: Any,
    ) -> CausalLMOutputWithPast:
        """As the decoder, with shifts as of `shifts` of shape (layers, B, N, added), or broadcast to it."""
        with self._shifted(shifts):
            return super().forward(
                input_ids=input_ids,
                attention_mask=attention_mask,
                position_ids=position_ids,
                past_key_values=past_key_values,
                logits_to_keep=logits_to_keep,
                **settings,
            )

    @contextmanager
    def _shifted(self, shifts: torch.Tensor | None) -> Iterator[None]:
        """Eq. (2) [berdozsteering] while it lasts, by hooks that go again; eq. (1) without shifts."""
        with ExitStack() as hooks:
            if shifts is not None:
                for layer, one, shift in zip(layers_of(self), self._projections, shifts, strict=True):
                    add = partial(_add, pad(shift, (one.before, 0)) if self.config.place == "up" else shift)
                    hooks.enter_context(one.module(layer, self.config.place).register_forward_hook(add))
            yield


def _add(shift: torch.Tensor, module: nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
    if output.ndim == 2:  # OPT's layers put all tokens of a batch in one row
        return (output.unflatten(0, (len(shift), -1)) + shift).flatten(0, 1)
    return output + shift


FolderConfig.register(Steered, "otspec_steered_llama")

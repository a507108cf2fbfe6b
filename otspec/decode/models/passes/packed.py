"""Weights that are packed once, on a CPU: a pass of a large model then takes as long as reading its weights does.

`torch.nn.functional.linear` packs a matrix anew in each call of several rows, and for matrices that do not stay in a
processor's caches that takes longer than the product.  oneDNN multiplies by matrices that are packed already, and torch
hands them over, as it does for models that it has compiled.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear, pad
from transformers import PreTrainedModel

from otspec.decode.models.fingerprint import keep_fingerprint
from otspec.decode.models.passes.conditioned import OtspecModule
from otspec.decode.models.passes.plain import is_plain
from otspec.errors import ProblemError
from otspec.kernels.byte_weights import LEAST_OUTPUTS, ByteMatrix
from otspec.kernels.byte_weights import product as byte_product
from otspec.kernels.few_rows import Bits

LARGE = 1 << 26
"""Bytes of weights that stay in no cache from pass to pass; what has less is multiplied as transformers does it."""
ROWS = 16
"""For how many rows matrices are packed; with fewer or more the product is the same, and hardly slower."""
BYTE_ROWS = 4
"""With more, products by weights of 8 bits are no faster."""
FEWEST = 3
"""Fewer rows of float32 are filled up: oneDNN takes a tenth and a third longer for one or two than for so many."""
OF_ONE_INPUT = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""Names of layers that multiply the same rows, in the order in which models call them: one product takes less time."""

Product = Callable[[torch.Tensor], torch.Tensor]
"""Takes rows, shape (..., inputs), to rows of shape (..., outputs)."""


class PackedMatrix:
    """Weights of linear layers of one input, packed one below the other.

    Parameters
    ----------
    layers : sequence of Linear
    in_bytes : bool
        Whether few rows are multiplied by weights of 8 bits.
    """

    def __init__(self, layers: Sequence[nn.Linear], in_bytes: bool = False) -> None:
        self.sizes = [layer.out_features for layer in layers]
        self.inputs = layers[0].in_features
        with torch.no_grad():
            weights = torch.cat([layer.weight.detach() for layer in layers])
            self._packed = torch.ops.mkldnn._reorder_linear_weight(weights, ROWS)
            biases: list[torch.Tensor | None] = [layer.bias for layer in layers]
            each = [
                weights.new_zeros(size) if one is None else one for one, size in zip(biases, self.sizes, strict=True)
            ]
            self._bias = None if all(one is None for one in biases) else torch.cat(each)
            self.in_bytes = (
                ByteMatrix.of(weights.float().numpy(), torch.cat(each).float().numpy())
                if in_bytes and weights.dtype == torch.bfloat16 and len(weights) >= LEAST_OUTPUTS
                else None
            )
            """The same for up to `BYTE_ROWS` rows, if it is wanted and possible."""
        self._rows: torch.Tensor | None = None
        self._answers: Sequence[torch.Tensor] = ()

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""
        dtype: torch.dtype = self._packed.dtype
        return dtype

    def weight(self, part: int) -> torch.Tensor:
        """The weights of a layer as they were, shape (outputs, inputs): a copy."""
        weights: tuple[torch.Tensor, ...] = self._packed.to_dense().split(self.sizes)
        return weights[part]

    def times(self, rows: torch.Tensor, part: int) -> torch.Tensor:
        """What a layer makes of rows, shape (..., outputs), from rows of shape (..., inputs).

        Layers of one input are called one after the other: the first multiplies for all, the last frees the result.
        """
        if len(self.sizes) == 1:
            return self.product(rows)
        if self._rows is not rows:
            self._rows, self._answers = rows, self.product(rows).split(self.sizes, dim=-1)
        answer = self._answers[part]
        if part == len(self.sizes) - 1:
            self._rows, self._answers = None, ()
        return answer

    def product(self, rows: torch.Tensor) -> torch.Tensor:
        """What all layers make of rows, shape (..., outputs of all), from rows of shape (..., inputs)."""
        count = rows.numel() // self.inputs
        if self.in_bytes is not None and 0 < count <= BYTE_ROWS:
            found = byte_product(as_bits(rows).reshape(count, -1), self.in_bytes)
            return torch.from_numpy(found).view(torch.bfloat16).view(*rows.shape[:-1], -1)
        if rows.dtype != torch.float32 or not 0 < count < FEWEST:
            return self._multiplied(rows)
        filled = pad(rows.reshape(count, -1), (0, 0, 0, FEWEST - count))
        return self._multiplied(filled)[:count].view(*rows.shape[:-1], -1)

    def _multiplied(self, rows: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, self._packed, self._bias, "none", [], "")
        return found


class PackedLinear(OtspecModule, nn.Module):
    """A linear layer that holds its weights packed, and in no other way.

    Parameters
    ----------
    layer : Linear
        What it stands in for.
    matrix : PackedMatrix, optional
        What its weights are packed in; by default one of its own.
    part : int
        Which of the layers of the matrix it is.
    tied : bool
        Whether its weights are held elsewhere as well, as an embedding, and saved there.
    """

    def __init__(self, layer: nn.Linear, matrix: PackedMatrix | None = None, part: int = 0, tied: bool = False) -> None:
        super().__init__()
        self.in_features, self.out_features, self.bias = layer.in_features, layer.out_features, layer.bias
        self.matrix, self.part, self.tied = matrix or PackedMatrix([layer]), part, tied

    @property
    def weight(self) -> torch.Tensor:
        """The weights as they were, shape (outputs, inputs): a copy."""
        return self.matrix.weight(self.part)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows, shape (..., outputs), from rows of shape (..., inputs)."""
        return self.matrix.times(rows, self.part)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if not self.tied:
            destination[f"{prefix}weight"] = self.weight

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> PackedLinear:
        """Stay as it is, or raise: this is what moves a model, and what changes its precision."""
        before = torch.empty(0, dtype=self.matrix.dtype)
        after = fn(before)
        if (after.dtype, after.device) != (before.dtype, before.device):
            raise ProblemError(
                f"packed weights stay on the CPU in {before.dtype}, and {after.dtype} on {after.device} is requested; "
                "load the model anew with that dtype and device"
            )
        return self


def pack(model: PreTrainedModel) -> None:
    """Pack the weights of a large model, in place, where oneDNN multiplies them: on a CPU, in float32 or bfloat16.

    All linear layers are replaced, so that transformers' own passes are faster, too.  The model takes as much memory as
    before, but that a head which is the embedding as well is held twice.  It can be saved; it cannot be trained.
    """
    if _pays(model):
        keep_fingerprint(model)
        pack_layers(model)


def pack_layers(model: PreTrainedModel, in_bytes: bool = False) -> None:
    """Pack the weights of a model of any size, which can be; parameters as for `PackedMatrix`."""
    embedding = model.get_input_embeddings().weight
    parents = [module for module in model.modules() if type(module) is not nn.Linear]  # none is held that is replaced
    for parent in parents:
        layers = {name: layer for name, layer in parent.named_children() if type(layer) is nn.Linear}
        alike = [names for names in OF_ONE_INPUT if layers.keys() >= set(names)]
        alone = [(name,) for name in layers if not any(name in names for names in alike)]
        for names in (*alike, *alone):
            matrix = PackedMatrix([layers[name] for name in names], in_bytes)
            for part, name in enumerate(names):
                tied = layers[name].weight is embedding
                setattr(parent, name, PackedLinear(layers.pop(name), matrix, part, tied))
        if alike or alone:
            _give_back()


@dataclass(frozen=True, eq=False)
class Dense:
    """A product by weights that are held as torch has them."""

    weight: torch.Tensor
    """Shape (outputs, inputs)."""
    bias: torch.Tensor | None
    """Shape (outputs,), if there is one."""

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows, shape (..., outputs), from rows of shape (..., inputs)."""
        return linear(rows, self.weight, self.bias)


@dataclass(frozen=True, eq=False)
class Packed:
    """A product by weights that are packed, perhaps beside others of one input."""

    matrix: PackedMatrix
    part: int

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows, shape (..., outputs), from rows of shape (..., inputs)."""
        return self.matrix.times(rows, self.part)


def as_bits(tensor: torch.Tensor) -> Bits:
    """A view of a tensor of bfloat16."""
    found: Bits = tensor.detach().view(torch.uint16).numpy()
    return found


def product_of(layer: nn.Module) -> Product:
    """What a linear layer multiplies rows by, without the detours of modules."""
    if isinstance(layer, PackedLinear):
        return Packed(layer.matrix, layer.part)
    assert isinstance(layer, nn.Linear)
    return Dense(layer.weight.detach(), None if layer.bias is None else layer.bias.detach())


def _pays(model: PreTrainedModel) -> bool:
    """Whether a model is large, and can be packed."""
    if model.device.type != "cpu" or sum(weights.nbytes for weights in model.parameters()) < LARGE:
        return False
    narrow = model.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return torch.backends.mkldnn.is_available() and (narrow or model.dtype == torch.float32) and is_plain(model)


def _give_back() -> None:
    """Return to the system what was freed: glibc keeps it for the threads that read the model's file."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)

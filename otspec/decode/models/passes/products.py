"""Products of few rows with large matrices, on a CPU: in little more than the time that reading the matrix takes.

`torch.nn.functional.linear` packs the matrix anew in each call of several rows, and for matrices that do not stay in a
processor's caches that takes as long as the rest.  Both ways around it leave the weights as and where they are:

- bfloat16: the matrix is the left factor.  oneDNN packs the right one, which has few columns then.
- float32: the matrix is taken in blocks, so small that MKL has kernels for them that pack nothing.

Weights that lie beside one another are one matrix: a call costs some 20 microseconds whatever it multiplies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import linear

LARGE = 1 << 26
"""Bytes of matrices that no cache keeps from pass to pass; fewer are multiplied as transformers does it."""
MOST_ROWS = {torch.bfloat16: 64, torch.float32: 12}
"""Beyond these, `linear` is as fast: packing is done once for all rows."""
LEAST_ROWS = {torch.bfloat16: 1, torch.float32: 3}
BLOCKS = (32, 16)
"""Rows of a block, the first that divides the matrix."""

Linear = tuple[torch.Tensor, torch.Tensor | None]
"""Weight and bias."""
Product = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]
"""Takes what `torch.nn.functional.linear` takes."""


def product_of(*weights: torch.Tensor) -> Product:
    """What multiplies rows with these matrices of a model, one after the other in every pass."""
    device, dtype = weights[0].device, weights[0].dtype
    if device.type != "cpu" or sum(weight.nbytes for weight in weights) < LARGE:
        return linear
    if dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return of_few_rows
    return of_few_rows if dtype == torch.float32 and torch.backends.mkl.is_available() else linear


def of_few_rows(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """`torch.nn.functional.linear`, up to rounding."""
    count = rows.numel() // rows.shape[-1]
    if not LEAST_ROWS[weight.dtype] <= count <= MOST_ROWS[weight.dtype]:
        return linear(rows, weight, bias)
    by = _in_blocks if weight.dtype == torch.float32 else _from_the_left
    found = by(rows.reshape(count, -1), weight).reshape(*rows.shape[:-1], len(weight))
    return found if bias is None else found + bias


def _from_the_left(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    count = len(rows)
    columns = (rows if count > 1 else rows.expand(2, -1)).t()  # of one column torch makes a slower product
    return torch.mm(weight, columns)[:, :count].t().contiguous()


def _in_blocks(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    size = next((size for size in BLOCKS if len(weight) % size == 0), None)
    if size is None:
        return linear(rows, weight)
    blocks = weight.view(-1, size, weight.shape[1]).transpose(1, 2)
    return torch.bmm(rows.expand(len(blocks), -1, -1), blocks).transpose(0, 1)


class Beside(NamedTuple):
    """Linear layers of one input."""

    linears: tuple[Linear, ...]
    """One if their weights lie beside one another in memory, else all."""
    sizes: tuple[int, ...]
    """How many outputs each has."""

    @classmethod
    def of(cls, modules: Sequence[Any]) -> Beside:
        """The layers of modules, joined if they can be."""
        linears = tuple((module.weight.detach(), module.bias) for module in modules)
        sizes = tuple(len(weight) for weight, _ in linears)
        return cls(_joined(linears) if _lie_beside([weight for weight, _ in linears]) else linears, sizes)

    def times(self, rows: torch.Tensor, product: Product) -> Sequence[torch.Tensor]:
        """What each gives."""
        if len(self.linears) < len(self.sizes):
            return product(rows, *self.linears[0]).split(self.sizes, dim=-1)
        return [product(rows, *one) for one in self.linears]


def lay_beside(modules: Sequence[nn.Linear]) -> None:
    """Move the weights of linear layers of one input next to one another; the parameters stay what they are."""
    with torch.no_grad():
        whole = torch.cat([module.weight for module in modules])
        for module, weight in zip(modules, whole.split([len(module.weight) for module in modules]), strict=True):
            module.weight.data = weight


def _lie_beside(weights: Sequence[torch.Tensor]) -> bool:
    """Whether each begins where the one before ends."""
    first, places = weights[0], set()
    end = first.storage_offset()
    for weight in weights:
        places.add((weight.untyped_storage().data_ptr(), weight.storage_offset() - end, weight.stride(), weight.dtype))
        end += weight.numel()
    return places == {(first.untyped_storage().data_ptr(), 0, (first.shape[1], 1), first.dtype)}


def _joined(linears: Sequence[Linear]) -> tuple[Linear]:
    """All as one; weights that lie beside one another are not copied."""
    first, _ = linears[0]
    whole = first.as_strided((sum(len(weight) for weight, _ in linears), first.shape[1]), first.stride())
    biases = [weight.new_zeros(len(weight)) if bias is None else bias.detach() for weight, bias in linears]
    return ((whole, None if all(bias is None for _, bias in linears) else torch.cat(biases)),)

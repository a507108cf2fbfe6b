"""Layers of a Llama over few rows on a CPU, by four packed products each, attention, and a kernel between any two.

Reading weights clears a processor's caches, so that each of torch's operations begins cold: in a pass over one row of
SmolLM2 thirty of them a layer take two fifths of the time.  Here a sum and the norm behind it are one kernel, so are
the turning of queries and keys and the writing of the cache, and so is what gates an MLP.  Weights are bfloat16; sums
are float32, and what goes from kernel to kernel is rounded once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from otspec.decode.models.passes.fused import Layer, Llama
from otspec.decode.models.passes.packed import Packed, PackedMatrix, as_bits
from otspec.kernels.few_rows import Gains, add_and_normalise, gate, turn

MOST_ROWS = 64
"""Over all texts; with more the products take longer than all else."""


class Weights(NamedTuple):
    """Those of a layer."""

    before_attention: Gains
    """Shape (d,): the weights of the norm; (0,) if there is none."""
    projections: PackedMatrix
    """Queries, keys and values."""
    of_query: Gains
    """Shape (size,): the weights of the norm of every head; (0,) if there is none."""
    of_key: Gains
    out: PackedMatrix
    before_mlp: Gains
    gate_up: PackedMatrix
    down: PackedMatrix

    @classmethod
    def of(cls, layer: Layer) -> Weights | None:
        """Those of a layer; None if they are not packed, products of one input together."""
        found = (layer.query, layer.key, layer.value, layer.out, layer.gate, layer.up, layer.down)
        matrices = [one.matrix for one in found if isinstance(one, Packed)]
        if len(matrices) < len(found) or len({*map(id, matrices)}) > 4 or matrices[0].dtype != torch.bfloat16:
            return None
        before, mlp, of_query, of_key = map(
            gains, (layer.before_attention, layer.before_mlp, layer.of_query, layer.of_key)
        )
        return cls(before, matrices[0], of_query, of_key, matrices[3], mlp, matrices[4], matrices[6])


def weights_of(llama: Llama) -> list[Weights] | None:
    """Those of all layers; None where they are held in another way."""
    found = [weights for layer in llama.layers if (weights := Weights.of(layer)) is not None]
    return found if len(found) == llama.count else None


class FewRows:
    """A pass, as `Llama.through`; layers are called in their order.

    Parameters
    ----------
    llama : Llama
    weights : list of Weights
        `weights_of` it.
    angles : pair of Tensors, shape (B, N, size)
        Of the positions of a block.
    entries : Tensor, shape (2 layers, B, heads of keys, columns, size)
        Keys and values of each layer; those of the block become columns `start` and on.
    start : int
    mask : Tensor, shape (B or 1, 1, N, start + N), optional
        Added to scores.
    """

    def __init__(
        self,
        llama: Llama,
        weights: list[Weights],
        angles: tuple[torch.Tensor, torch.Tensor],
        entries: torch.Tensor,
        start: int,
        mask: torch.Tensor | None,
    ) -> None:
        self._weights, self._llama, self._start = weights, llama, start
        batch, count, size = angles[0].shape
        self._cosine, self._sine = (as_bits(angle).reshape(-1, size) for angle in angles)
        self._shape, self._stop = (batch, count), start + count
        self._entries, self._cache = entries, as_bits(entries)
        group = self._llama.heads // self._llama.key_heads
        # Queries of all heads that share one of keys are rows of one product.
        self._mask = mask if mask is None or group == 1 else mask.repeat(1, 1, group, 1)
        width = self._llama.embedding.shape[1]
        self._hidden = entries.new_empty(len(weights) + 1, batch, count, width)
        self._normed = entries.new_empty(batch, count, width)
        self._rows, self._into = as_bits(self._hidden).reshape(-1, batch * count, width), as_bits(self._normed)
        self._queries = entries.new_empty(batch, self._llama.key_heads, group * count, size)
        self._bits = as_bits(self._queries)
        self._gated = entries.new_empty(batch, count, weights[0].gate_up.sizes[0])
        self._between = as_bits(self._gated)

    def __call__(self, number: int, hidden: torch.Tensor) -> torch.Tensor:
        """What comes out of a layer, shape (B, N, d), from what goes in."""
        weights, llama, rows = self._weights[number], self._llama, self._rows
        last = number == len(self._weights) - 1
        after = weights.before_mlp if last else self._weights[number + 1].before_attention  # the last is nobody's
        into, normed = self._into.reshape(rows.shape[1:]), self._normed
        if number == 0:
            self._hidden[0], normed = llama.layers[0].begin(hidden, llama.epsilon)
        keys, values = self._cache[2 * number], self._cache[2 * number + 1]
        projected = as_bits(weights.projections.product(normed))
        turn(
            projected.reshape(len(into), -1), self._cosine, self._sine, weights.of_query, weights.of_key,
            llama.epsilon, self._start, self._bits, keys, values,
        )  # fmt: skip
        out = as_bits(weights.out.product(self._attended(number))).reshape(into.shape)
        add_and_normalise(rows[number], out, weights.before_mlp, llama.epsilon, rows[number + 1], into)
        gate(as_bits(weights.gate_up.product(self._normed)).reshape(len(into), -1), self._between)
        down = as_bits(weights.down.product(self._gated)).reshape(into.shape)
        add_and_normalise(rows[number + 1], down, after, llama.epsilon, rows[number + 1], into)
        return self._hidden[number + 1]

    def _attended(self, number: int) -> torch.Tensor:
        """What the queries find, shape (B, N, heads * size)."""
        keys, values = self._entries[2 * number : 2 * number + 2, :, :, : self._stop]
        found = scaled_dot_product_attention(self._queries, keys, values, attn_mask=self._mask)
        batch, count = self._shape
        return found.view(batch, self._llama.heads, count, -1).transpose(1, 2).reshape(batch, count, -1)


def gains(weights: torch.Tensor | None) -> Gains:
    """Weights of a norm, shape (d,), or (0,) for none."""
    found: Gains = np.empty(0, np.float32) if weights is None else weights.detach().float().numpy()
    return found

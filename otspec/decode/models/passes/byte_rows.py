"""A draft model's pass over a row or some on a CPU, by weights of 8 bits: a kernel a layer, and one for the head."""

from __future__ import annotations

import numpy as np
import torch

from otspec.decode.models.passes.few_rows_host import gains
from otspec.decode.models.passes.fused import Layer, Llama
from otspec.decode.models.passes.packed import Packed, as_bits
from otspec.decode.models.passes.signature import Inputs, Outputs
from otspec.kernels.byte_weights import ByteLayer, ByteMatrix, layer, multiply
from otspec.kernels.few_rows import Bits, Gains, normalise

NO_MASK: Bits = np.empty((0, 0, 0), np.uint16)


class ByteRows:
    """The layers of a model and its head.

    Parameters
    ----------
    llama : Llama
    layers : list of ByteLayer
    head : ByteMatrix
    """

    def __init__(self, llama: Llama, layers: list[ByteLayer], head: ByteMatrix) -> None:
        self._llama, self._layers, self._head = llama, layers, head
        self._norm = gains(llama.norm)

    @classmethod
    def of(cls, llama: Llama) -> ByteRows | None:
        """The same model; None where weights are held in another way, or hidden states are wanted but the last."""
        layers = [found for one in llama.layers if (found := _byte_layer(one)) is not None]
        head = _byte_matrix(llama.head)
        if head is None or len(layers) < llama.count or not {*llama.wanted} <= {llama.count}:
            return None
        return cls(llama, layers, head)

    @property
    def parts(self) -> tuple[tuple[ByteLayer, ...], Gains, ByteMatrix, float]:
        """Layers, weights of the last norm, the head and the norms' epsilon."""
        return tuple(self._layers), self._norm, self._head, self._llama.epsilon

    def read(self, inputs: Inputs, angles: tuple[torch.Tensor, torch.Tensor], entries: torch.Tensor) -> Outputs:
        """As `Llama.read`.

        Parameters
        ----------
        inputs : Inputs
            Without shifts, and not of texts that are read from their starts; `BYTE_ROWS` rows at most.
        angles : pair of Tensors, shape (B, N, size)
            Of the positions of the block.
        entries : Tensor, shape (2 layers, B, heads of keys, columns, size)
            Keys and values of each layer.
        """
        llama, (batch, count) = self._llama, inputs.tokens.shape
        hidden = llama.begin(inputs)
        rows, cache = as_bits(hidden).reshape(batch * count, -1), as_bits(entries)
        cosine, sine = (as_bits(angle).reshape(batch * count, -1) for angle in angles)
        mask = NO_MASK if inputs.mask is None else as_bits(inputs.mask)[:, 0]
        for number, weights in enumerate(self._layers):
            keys, values = cache[2 * number], cache[2 * number + 1]
            layer(rows, weights, cosine, sine, llama.epsilon, inputs.start, mask, keys, values)
        normalise(rows, self._norm, llama.epsilon, rows)
        last = hidden[:, -inputs.keep :]
        logits = np.empty((batch * inputs.keep, len(self._head.scales)), np.float32)
        multiply(as_bits(last).reshape(len(logits), -1), self._head, logits)
        features = hidden.unsqueeze(2) if llama.wanted else None
        return Outputs(torch.from_numpy(logits).view(batch, inputs.keep, -1), features)


def _byte_matrix(product: object) -> ByteMatrix | None:
    return product.matrix.in_bytes if isinstance(product, Packed) else None


def _byte_layer(weights: Layer) -> ByteLayer | None:
    """The weights of a layer, products of one input together."""
    if weights.is_eagle:
        return None
    found = [_byte_matrix(one) for one in (weights.query, weights.out, weights.gate, weights.down)]
    if any(one is None for one in found):
        return None
    before, mlp, of_query, of_key = map(
        gains, (weights.before_attention, weights.before_mlp, weights.of_query, weights.of_key)
    )
    projections, out, gate_up, down = (one for one in found if one is not None)
    return ByteLayer(before, projections, of_query, of_key, out, mlp, gate_up, down)

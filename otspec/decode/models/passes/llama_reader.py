"""Reading with a Llama's layers on a CPU, whose keys and values are one block."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel

from otspec.decode.models.passes.byte_rows import ByteRows
from otspec.decode.models.passes.cache import KVBlock
from otspec.decode.models.passes.few_rows_host import MOST_ROWS, FewRows, weights_of
from otspec.decode.models.passes.fused import Llama
from otspec.decode.models.passes.packed import BYTE_ROWS
from otspec.decode.models.passes.signature import Inputs, Outputs


class LlamaReader:
    """A reader, as `otspec.decode.models.passes.signature.Reader` describes it, on a CPU.

    Parameters
    ----------
    model : PreTrainedModel
        One that `takes` accepts.
    layers : sequence of int
        After how many layers hidden states are returned.
    """

    def __init__(self, model: PreTrainedModel, layers: Sequence[int] = ()) -> None:
        self._llama = Llama(model, layers)
        self._few = weights_of(self._llama)
        self.in_bytes = ByteRows.of(self._llama)
        """What reads a row or some by weights of 8 bits, where the model has such."""
        self._block: KVBlock | None = None
        self._cosine = self._sine = torch.empty(0, self._llama.size)

    @staticmethod
    def takes(model: PreTrainedModel) -> bool:
        """Whether this gives what the model gives, up to rounding: in float32 or bfloat16, on a CPU."""
        return model.dtype in (torch.float32, torch.bfloat16) and model.device.type == "cpu" and Llama.takes(model)

    def read(self, inputs: Inputs) -> Outputs:
        """As `Reader.read`: padding on the right of texts is seen by no token of theirs."""
        batch, count = inputs.tokens.shape
        start, stop = inputs.start, inputs.start + count
        heads, key_heads, size = self._llama.heads, self._llama.key_heads, self._llama.size
        (block, (cosine, sine)), group = self.room(batch, stop), heads // key_heads
        entries = block.entries
        causal = inputs.present is not None

        def attend(number: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            keys, values = entries[2 * number, :, :, :stop], entries[2 * number + 1, :, :, :stop]
            keys[:, :, start:] = key
            values[:, :, start:] = value
            if group > 1 and count == 1:  # heads of one key as so many queries
                query = query.reshape(batch, key_heads, group, size)
            elif group > 1:
                keys, values = (states.repeat_interleave(group, dim=1) for states in (keys, values))
            attended = scaled_dot_product_attention(query, keys, values, attn_mask=inputs.mask, is_causal=causal)
            return attended.reshape(batch, heads, count, size)

        angles, shifts = (cosine[inputs.position], sine[inputs.position]), inputs.conditioning.shifts
        few = MOST_ROWS if shifts is None and not causal else 0
        if self.in_bytes is not None and batch * count <= min(few, BYTE_ROWS):
            return self.in_bytes.read(inputs, angles, entries)
        if self._few is not None and batch * count <= few:
            few_rows = FewRows(self._llama, self._few, angles, entries, start, inputs.mask)
            return self._llama.read(inputs, few_rows)
        return self._llama.read(inputs, self._llama.through(angles, shifts, attend))

    @property
    def blocks(self) -> Sequence[KVBlock]:
        """Keys and values of all layers in one."""
        return [] if self._block is None else [self._block]

    def room(self, batch: int, columns: int) -> tuple[KVBlock, tuple[torch.Tensor, torch.Tensor]]:
        """A cache of at least so many columns, and angles of as many positions."""
        llama = self._llama
        if self._block is None:
            first = llama.embedding.new_empty(batch, llama.key_heads, columns, llama.size)
            self._block = KVBlock(2 * llama.count, first)
        self._block.reserve(columns)
        have = self._block.entries.shape[3]
        if len(self._cosine) < have:
            self._cosine, self._sine = llama.angles(have)
        return self._block, (self._cosine, self._sine)

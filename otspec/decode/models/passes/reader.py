"""One pass of a model over new tokens: by transformers' own code, launched or replayed, or by a leaner one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from otspec.decode.models.passes.cache import KVBlock, outputs_at
from otspec.decode.models.passes.llama_reader import LlamaReader
from otspec.decode.models.passes.signature import Inputs, Outputs, Reader
from otspec.decode.models.passes.static import StaticReader, has_no_head
from otspec.decode.models.passes.transformers_reader import TransformersReader


class OutputCacheReader:
    """A reader of a model without a head that caches the model's outputs, column by column.

    They are a block like keys and values, so they are moved and dropped with these.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self._block: KVBlock | None = None

    def read(self, inputs: Inputs) -> Outputs:
        """As `Reader.read`; a row more costs next to nothing where there is no head."""
        outputs, features = self.reader.read(inputs._replace(keep=inputs.tokens.shape[1]))
        stop = inputs.start + outputs.shape[1]
        if self._block is None:
            self._block = KVBlock(1, outputs.new_zeros(len(outputs), 1, stop, outputs.shape[2]))
        self._block.reserve(stop)
        self._block.entries[0, :, 0, inputs.start : stop] = outputs
        return Outputs(outputs[:, -inputs.keep :], features)

    def outputs_at(self, columns: torch.Tensor) -> torch.Tensor:
        """As `outputs_at`; there is something in the cache."""
        assert self._block is not None
        return outputs_at(self._block.entries[0, :, 0], columns)

    @property
    def blocks(self) -> Sequence[KVBlock]:
        """Those of the reader, and that of the outputs."""
        return self.reader.blocks if self._block is None else [*self.reader.blocks, self._block]


def reader_of(model: PreTrainedModel, layers: Sequence[int] = ()) -> Reader:
    """The leanest reader that gives the model's logits, and hidden states after these layers.

    On a CPU and in float32 to the last bit, unless the model is large; elsewhere passes round differently.  Without a
    head, one that caches outputs.
    """
    lean = LlamaReader.takes(model)
    if not lean and StaticReader.takes(model):
        return StaticReader(model, layers)
    reader: Reader = LlamaReader(model, layers) if lean else TransformersReader(model, layers)
    return OutputCacheReader(reader) if has_no_head(model) else reader

"""One pass of a model over new tokens: by transformers' own code, launched or replayed, or by a leaner one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import nn
from transformers import PreTrainedModel

from otspec.decode.models.passes.cache import Block
from otspec.decode.models.passes.fused import LlamaReader
from otspec.decode.models.passes.signature import UNCONDITIONED, Conditioning, Outputs
from otspec.decode.models.passes.static import StaticReader
from otspec.decode.models.passes.transformers_reader import TransformersReader


class Reader(Protocol):
    """A model with a cache of its own: all that a pass depends on is said to it, and all that it gives is returned."""

    def begin(
        self,
        tokens: torch.Tensor,
        present: torch.Tensor,
        position: torch.Tensor,
        *,
        keep: int = 1,
        conditioning: Conditioning = UNCONDITIONED,
    ) -> Outputs:
        """Read texts from their starts, shapes (B, S), padded on the right where `present` is False.

        Logits of the last `keep` columns come back.
        """

    def read(
        self,
        tokens: torch.Tensor,
        position: torch.Tensor,
        mask: torch.Tensor | None,
        start: int,
        keep: int,
        conditioning: Conditioning = UNCONDITIONED,
    ) -> Outputs:
        """Logits of the last `keep` tokens of a block; the block becomes columns `start` and on.

        Parameters
        ----------
        tokens, position : Tensor of int, shape (B, N)
        mask : Tensor, shape (B or 1, 1, N, start + N), optional
            Added to the scores; None where every token of the block attends to all columns before it and to all of
            the block.
        start, keep : int
        conditioning : Conditioning
            What a model of the package is told of its target.
        """

    @property
    def blocks(self) -> Sequence[Block]:
        """All of the cache."""


class Remembering:
    """A reader of a model without a head that remembers what it gave, column by column.

    What it remembers is a block like keys and values, so it is moved and dropped with them.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self._block: Block | None = None

    def begin(
        self,
        tokens: torch.Tensor,
        present: torch.Tensor,
        position: torch.Tensor,
        *,
        keep: int = 1,
        conditioning: Conditioning = UNCONDITIONED,
    ) -> Outputs:
        """As `Reader.begin`."""
        found = self.reader.begin(tokens, present, position, keep=tokens.shape[1], conditioning=conditioning)
        return self._remembered(found, 0, keep)

    def read(
        self,
        tokens: torch.Tensor,
        position: torch.Tensor,
        mask: torch.Tensor | None,
        start: int,
        keep: int,
        conditioning: Conditioning = UNCONDITIONED,
    ) -> Outputs:
        """As `Reader.read`; a row more costs next to nothing where there is no head."""
        return self._remembered(
            self.reader.read(tokens, position, mask, start, tokens.shape[1], conditioning), start, keep
        )

    def _remembered(self, found: Outputs, start: int, keep: int) -> Outputs:
        outputs = found.logits
        stop = start + outputs.shape[1]
        if self._block is None:
            self._block = Block(1, outputs.new_zeros(len(outputs), 1, stop, outputs.shape[2]))
        self._block.reserve(stop)
        self._block.entries[0, :, 0, start:stop] = outputs
        return Outputs(outputs[:, -keep:], found.features)

    def given(self, columns: torch.Tensor) -> torch.Tensor:
        """What the model gave at columns of its cache, shape (B, n), one of each text or more; zero where they are < 0.

        Returns a tensor of shape (B, n, d); there is something in the cache.
        """
        assert self._block is not None
        entries = self._block.entries[0, :, 0]
        outputs = entries[torch.arange(len(columns), device=entries.device)[:, None], columns.clamp(min=0)]
        return outputs.masked_fill((columns < 0).unsqueeze(-1), 0.0)

    @property
    def blocks(self) -> Sequence[Block]:
        """Those of the reader, and what is remembered."""
        return self.reader.blocks if self._block is None else [*self.reader.blocks, self._block]


def reader_of(model: PreTrainedModel, layers: Sequence[int] = ()) -> Reader:
    """The leanest reader that gives the model's logits, and hidden states after these layers.

    On a CPU and in float32 to the last bit, unless the model is large; elsewhere passes round differently.  Without a
    head, one that remembers.
    """
    for kind in (LlamaReader, StaticReader):
        if kind.takes(model):
            reader: Reader = kind(model, layers)
            break
    else:
        reader = TransformersReader(model, layers)
    return Remembering(reader) if isinstance(model.get_output_embeddings(), nn.Identity) else reader

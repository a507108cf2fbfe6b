"""One pass of a model over new tokens: by transformers' own code, launched or replayed, or by a leaner one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import nn
from transformers import PreTrainedModel

from otspec.decode.models.passes.cache import Block
from otspec.decode.models.passes.fused import LlamaReader
from otspec.decode.models.passes.static import StaticReader
from otspec.decode.models.passes.transformers_reader import TransformersReader


class Reader(Protocol):
    """A model with a cache of its own."""

    def begin(
        self, tokens: torch.Tensor, present: torch.Tensor, position: torch.Tensor, *, keep: int = 1
    ) -> torch.Tensor:
        """Read texts from their starts, shapes (B, S), padded on the right where `present` is False.

        Logits of the last columns come back, shape (B, keep, V).
        """

    def read(
        self, tokens: torch.Tensor, position: torch.Tensor, mask: torch.Tensor | None, start: int, keep: int
    ) -> torch.Tensor:
        """Logits of the last tokens of a block, shape (B, keep, V); the block becomes columns `start` and on.

        Parameters
        ----------
        tokens, position : Tensor of int, shape (B, N)
        mask : Tensor, shape (B or 1, 1, N, start + N), optional
            Added to the scores; None where every token of the block attends to all columns before it and to all of
            the block.
        start, keep : int
        """

    @property
    def blocks(self) -> Sequence[Block]:
        """All of the cache."""

    @property
    def features(self) -> torch.Tensor:
        """Hidden states of what was read last, shape (B, N, layers, width): after as many layers as was asked for.

        Those after all layers are normalised, as the head gets them.
        """

    shifts: torch.Tensor | None
    """What is added in every layer of a `Steered` model from now on, shape (layers, B, N or 1, added)."""
    added: torch.Tensor | None
    """What is added to the embeddings of an `Eagle` model in the next pass, shape (B, N, hidden)."""


class Remembering:
    """A reader of a model without a head that remembers what it gave, column by column.

    What it remembers is a block like keys and values, so it is moved and dropped with them.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self._block: Block | None = None

    def begin(
        self, tokens: torch.Tensor, present: torch.Tensor, position: torch.Tensor, *, keep: int = 1
    ) -> torch.Tensor:
        """As `Reader.begin`."""
        outputs = self.reader.begin(tokens, present, position, keep=tokens.shape[1])
        self._remember(outputs, 0)
        return outputs[:, -keep:]

    def read(
        self, tokens: torch.Tensor, position: torch.Tensor, mask: torch.Tensor | None, start: int, keep: int
    ) -> torch.Tensor:
        """As `Reader.read`; a row more costs next to nothing where there is no head."""
        outputs = self.reader.read(tokens, position, mask, start, tokens.shape[1])
        self._remember(outputs, start)
        return outputs[:, -keep:]

    @property
    def features(self) -> torch.Tensor:
        """As `Reader.features`."""
        return self.reader.features

    @property
    def shifts(self) -> torch.Tensor | None:
        """As `Reader.shifts`."""
        return self.reader.shifts

    @shifts.setter
    def shifts(self, shifts: torch.Tensor | None) -> None:
        self.reader.shifts = shifts

    @property
    def added(self) -> torch.Tensor | None:
        """As `Reader.added`."""
        return self.reader.added

    @added.setter
    def added(self, added: torch.Tensor | None) -> None:
        self.reader.added = added

    def _remember(self, outputs: torch.Tensor, start: int) -> None:
        stop = start + outputs.shape[1]
        if self._block is None:
            self._block = Block(1, outputs.new_zeros(len(outputs), 1, stop, outputs.shape[2]))
        self._block.reserve(stop)
        self._block.entries[0, :, 0, start:stop] = outputs

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

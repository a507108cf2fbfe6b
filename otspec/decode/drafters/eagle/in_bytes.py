"""Levels of one text's draft by one kernel, on a CPU: independent draws from laws that a temperature alone shapes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from otspec.decode.base.draft_laws import DraftLaw
from otspec.decode.drafters.eagle.model import Eagle
from otspec.decode.drafters.levels import Levels
from otspec.decode.drafters.shortlists.restricted import KeptHead
from otspec.decode.drafters.shortlists.selection import DraftHead
from otspec.decode.models.context import Context
from otspec.decode.models.passes.llama_reader import LlamaReader
from otspec.decode.models.passes.packed import BYTE_ROWS, as_bits
from otspec.kernels.byte_drafts import ByteDrafter, Cache, draft, read_text
from otspec.kernels.few_rows import Bits, Gains
from otspec.laws import IntArray
from otspec.verification.trees.shape import Shape


def model_in_bytes(context: Context, model: Eagle) -> ByteDrafter | None:
    """What the kernel takes of a model that the context is of; None where its passes are others."""
    rows = context.reader.in_bytes if isinstance(context.reader, LlamaReader) else None
    return None if rows is None else model.in_bytes(rows)


@dataclass(frozen=True)
class ByteLevels:
    """What drafts a tree; made by `of`."""

    context: Context
    reader: LlamaReader
    model: ByteDrafter
    columns: IntArray
    """The token of each row of the head, shape (k,)."""
    temperature: float
    shape: Shape

    @classmethod
    def of(
        cls, context: Context, model: ByteDrafter | None, head: DraftHead, law: DraftLaw, shape: Shape
    ) -> ByteLevels | None:
        """Levels of that shape; None where the kernel does not do what all this says."""
        if model is None or len(context.length) > 1 or law.name != "iid":
            return None
        if shape.each or max(_widths(shape), default=0) > BYTE_ROWS:
            return None
        if not isinstance(head, KeptHead) or head.columns is None or head.sampling.temperature is None:
            return None
        assert isinstance(context.reader, LlamaReader)
        return cls(context, context.reader, model, head.columns.numpy(), head.sampling.temperature, shape)

    def read(self, packed: torch.Tensor, features: torch.Tensor) -> tuple[Gains, Bits]:
        """Read what is new of the text: its logits, shape (1, k), and the model's output at the last token, (1, d).

        Parameters
        ----------
        packed : Tensor of int
            As `otspec.decode.drafters.model.Unread` has it, of `BYTE_ROWS` tokens at most.
        features : Tensor, shape (1, N, layers, width)
            The target's states before them.
        """
        *tokens, count, before = packed[0].tolist()
        start = self.context.put_on_trial(count, 1, count > 1)
        return read_text(self.model, self._cache(start + count), np.array(tokens), as_bits(features)[0], start, before)

    def draft(self, after: tuple[Gains, Bits], position: int, generator: torch.Generator) -> Levels:
        """All levels.

        Parameters
        ----------
        after : pair of arrays
            As `read` gives them.
        position : int
            Of the text's last token.
        generator : torch.Generator
        """
        *_, inner, slots = self.shape.offsets
        start = self.context.end + self.context.trial
        for width in _widths(self.shape):
            self.context.put_on_trial(width, width, max(self.shape.branching) > 1)
        laws, tokens = np.empty((inner, after[0].shape[1])), np.empty(slots - 1, np.int64)
        uniform = torch.rand(slots - 1, dtype=torch.float64, generator=generator).numpy()
        draft(
            self.model, self._cache(start + inner - 1), np.array(self.shape.branching), self.columns, self.temperature,
            uniform, *after, start, position, laws, tokens,
        )  # fmt: skip
        return Levels(torch.from_numpy(tokens)[None], torch.from_numpy(laws)[None], self.shape.depth, [])

    def _cache(self, columns: int) -> Cache:
        block, angles = self.reader.room(1, columns)
        return Cache(*map(as_bits, (block.entries, *angles)))


def _widths(shape: Shape) -> list[int]:
    """Of the levels that are read: all but the root and the last."""
    widths: list[int] = np.diff(shape.offsets[1:-1]).tolist()
    return widths

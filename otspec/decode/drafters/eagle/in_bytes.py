"""Levels of one text's draft by one kernel, on a CPU.

Siblings are drawn independently, from laws that temperature and truncations shape, or are the likeliest tokens; or the
tree is a dynamic one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from otspec.decode.base.draft_laws import DraftLaw
from otspec.decode.base.warpers import SamplingParams
from otspec.decode.drafters.eagle.model import Eagle
from otspec.decode.drafters.levels import GrownLevel, Levels
from otspec.decode.drafters.shortlists.restricted import RestrictedHead
from otspec.decode.drafters.shortlists.selection import DraftHead
from otspec.decode.models.context import Context
from otspec.decode.models.passes.llama_reader import LlamaReader
from otspec.decode.models.passes.packed import BYTE_ROWS, as_bits
from otspec.kernels.byte_drafts import ByteDrafter, Cache, draft, grow, read_text
from otspec.kernels.few_rows import Bits, Gains
from otspec.laws import IntArray
from otspec.verification.trees.shape import Shape

LIKELIEST = "top_k"
"""The law of siblings that are the likeliest tokens."""


def model_in_bytes(context: Context, model: Eagle) -> ByteDrafter | None:
    """The parts of a context's model that the kernel takes; None where its passes are others."""
    rows = context.reader.in_bytes if isinstance(context.reader, LlamaReader) else None
    return None if rows is None else model.in_bytes(rows)


@dataclass(frozen=True)
class ByteLevels:
    """Drafts after one text; made by `of`."""

    context: Context
    reader: LlamaReader
    model: ByteDrafter
    columns: IntArray
    """The token of each row of the head, shape (k,)."""
    params: SamplingParams | None
    """Of the draws; None where they have other settings besides."""

    @classmethod
    def of(cls, context: Context, model: ByteDrafter | None, head: DraftHead) -> ByteLevels | None:
        """The same for that head; None where no kernel has it."""
        if model is None or len(context.length) > 1 or not isinstance(head, RestrictedHead) or head.columns is None:
            return None
        assert isinstance(context.reader, LlamaReader)
        return cls(context, context.reader, model, head.columns.numpy(), head.sampling.params)

    def draws(self, law: DraftLaw, shape: Shape) -> bool:
        """Whether `draft` drafts by that law, in that shape."""
        narrow = max(_widths(shape), default=0) <= BYTE_ROWS
        return narrow and not shape.each and self.params is not None and law.name in ("iid", LIKELIEST)

    def grows(self, width: int) -> bool:
        """Whether `grow` goes on from so many prefixes."""
        return width <= min(BYTE_ROWS, len(self.columns))

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

    def draft(
        self, after: tuple[Gains, Bits], position: int, law: DraftLaw, shape: Shape, generator: torch.Generator
    ) -> Levels:
        """All levels of a tree of that shape.

        Parameters
        ----------
        after : pair of arrays
            As `read` gives them.
        position : int
            Of the text's last token.
        law : DraftLaw
        shape : Shape
        generator : torch.Generator
        """
        assert self.params is not None
        temperature, top_k, top_p, min_p = self.params
        params = temperature, top_k, top_p, min_p  # a plain tuple, which the kernel is compiled for
        *_, inner, slots = shape.offsets
        start = self._on_trial(_widths(shape), max(shape.branching) > 1)
        laws, tokens = np.empty((inner, after[0].shape[1])), np.empty(slots - 1, np.int64)
        drawn = 0 if law.name == LIKELIEST else slots - 1
        uniform = torch.rand(drawn, dtype=torch.float64, generator=generator).numpy()
        draft(
            self.model, self._cache(start + inner - 1), np.array(shape.branching), self.columns, params,
            uniform, *after, start, position, laws, tokens,
        )  # fmt: skip
        return Levels(torch.from_numpy(tokens)[None], torch.from_numpy(laws)[None], shape.depth, [])

    def grow(self, after: tuple[Gains, Bits], position: int, width: int, depth: int) -> list[GrownLevel]:
        """The levels of a dynamic tree; `width` and `depth` as for `otspec.decode.drafters.grow_tree.GrowTree`."""
        start, most = self._on_trial([width] * (depth - 1), width > 1), width * width
        tokens, parents = np.empty((2, depth, most), np.int64)
        chances, expanded = np.empty((depth, most)), np.empty((depth, width), np.int64)
        grow(
            self.model, self._cache(start + width * (depth - 1)), self.columns, *after, start, position,
            tokens, chances, parents, expanded,
        )  # fmt: skip
        grown = zip(tokens, chances, parents, expanded, strict=True)
        levels = [GrownLevel(*(torch.from_numpy(part)[None] for part in level)) for level in grown]
        levels[0] = GrownLevel(*(part[:, :width] for part in levels[0]))
        levels[-1] = levels[-1]._replace(expanded=levels[-1].expanded[:, :0])
        return levels

    def _on_trial(self, widths: Sequence[int], masked: bool) -> int:
        """Count levels as read; the first column of theirs."""
        start = self.context.end + self.context.trial
        for width in widths:
            self.context.put_on_trial(width, width, masked)
        return start

    def _cache(self, columns: int) -> Cache:
        block, angles = self.reader.room(1, columns)
        return Cache(*map(as_bits, (block.entries, *angles)))


def _widths(shape: Shape) -> list[int]:
    """Of the levels that are read: all but the root and the last."""
    widths: list[int] = np.diff(shape.offsets[1:-1]).tolist()
    return widths

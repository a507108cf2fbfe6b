"""Drafting all depths in one pass, from laws that do not depend on each other's drafts."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import pad

from otspec.decode.drafters.eagle.drafter import EagleDrafter
from otspec.decode.drafters.levels import Levels
from otspec.decode.drafters.model import Text
from otspec.decode.drafters.shared.model import SharedLlama
from otspec.decode.models.passes.signature import Conditioning
from otspec.laws import IntArray
from otspec.verification.trees.shape import Shape


class ParallelDrafter(EagleDrafter):
    """Drafts from a `SharedLlama` with masks: behind the text it reads as many of them as levels are wanted.

    What it gives there are the laws of all levels.  So drawing costs nothing more: a tree is limited by what the target
    reads alone.
    """

    model: SharedLlama
    _given: torch.Tensor
    """What the head gets, or gives, for every level of this step, shape (B, levels, ...)."""
    _at_most: int = 1
    """Levels that this step reads."""

    def depth(self, lengths: IntArray) -> int:
        """As deep as the shape, or as there are masks, or positions."""
        return min(super().depth(lengths), self.model.config.masks + 1)

    def begin_step(self, texts: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
        """Read with the target's features; one level, if nobody wants more."""
        self._at_most = 1
        return super().begin_step(texts)

    def every_level(self, texts: Sequence[Sequence[int]], depth: int) -> torch.Tensor:
        """What the model gives for so many levels, shape (B, depth, ...)."""
        return self._at_once(self._new_in(texts), depth)

    def _drafted(self, shape: Shape, texts: Sequence[Sequence[int]]) -> Levels:
        self._at_most = shape.depth
        return super()._drafted(shape, texts)

    def _after(self, text: Text) -> torch.Tensor:
        self._given = self._at_once(text, self._at_most)
        return self._given[:, :1]

    def _at_once(self, text: Text, levels: int) -> torch.Tensor:
        """What the model gives for so many levels, shape (B, levels, ...)."""
        batch, masks = len(text.tokens), levels - 1
        more = torch.arange(1, levels, device=self.context.device)
        tokens = torch.cat((text.tokens, (self._own_vocab - 1 + more).expand(batch, -1)), dim=1)
        position = torch.cat((text.position, text.root + more), dim=1)
        added = self.model.conditioning(*self._told)
        told = Conditioning(added=pad(added, (0, 0, 0, masks)))  # masks see no state of the target's: they follow one
        self._text = text
        sees = text._replace(
            tokens=tokens, own=None if text.own is None else pad(text.own, (0, masks), value=True)
        ).sees
        self._read = self.context.read(tokens, position, sees, levels, told)
        return self._read.logits

    def after_level(self, read: torch.Tensor, level: int, parents: torch.Tensor, lineage: torch.Tensor) -> torch.Tensor:
        """The same for all slots of a level."""
        return self._given[:, level : level + 1].expand(-1, read.shape[1], *self._given.shape[2:])

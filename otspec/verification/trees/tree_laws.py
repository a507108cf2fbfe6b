"""The laws at the slots of trees, looked up a level at a time: those of all slots together would not fit."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from otspec.verification.tensors.reading import Rows
from otspec.verification.trees.layout import NONE, Layout, take


class Groups(NamedTuple):
    """Tokens of nearly equal p/q, in ascending order, and those that cannot be drafted as one more at the end."""

    target: Tensor
    """Shape (R, k): p of the groups, in units, before it is divided by its total."""
    size: Tensor
    """Shape (R, k): q of the groups likewise; 0 where there is no such token."""


class Line(NamedTuple):
    """One path of each of B trees, L tokens at most, and where its laws are: beyond its end they are the root's."""

    slots: Tensor
    """Shape (B, L), int64: from level 1 on, `NONE` after the end."""
    tokens: Tensor
    """Shape (B, L), int64: theirs, `NONE` after the end."""
    length: Tensor
    """Shape (B,), int64."""
    target_row: Tensor
    """Shape (B, L + 1), int64: of the target's laws after 0 to L tokens."""
    draft_row: Tensor
    """Shape (B, L), int64: of the laws that the tokens were drawn from."""
    place: Tensor
    """Shape (B, L), int64: the slots that have these laws, their parents, numbered through all trees."""


class TreeLaws(NamedTuple):
    """Laws as they came, in rows, and which of them each slot has."""

    target: Rows
    """Of R laws."""
    target_row: Tensor
    """Shape (B, S); a row that there is."""
    draft: Rows
    draft_row: Tensor
    """Shape (B, S); any row where a slot has no children."""
    sound: Tensor
    """Shape (B,): trees whose laws can be read.  Those of others are taken to be even."""
    groups: Groups | None = None
    """Of all slots, B * S, where kernels have put their tokens into groups already."""

    @property
    def vocab(self) -> int:
        """V."""
        return self.target.read.values.shape[1]

    def along(self, layout: Layout, tokens: Tensor, slots: Tensor) -> Line:
        """The line of some slots, shape (B, L), of tokens of shape (B, S)."""
        there, parent = slots >= 0, take(layout.parent, slots)
        first = torch.arange(len(slots), device=slots.device)[:, None] * tokens.shape[1]
        return Line(
            slots,
            torch.where(there, take(tokens, slots), NONE),
            there.sum(dim=1),
            take(self.target_row, torch.nn.functional.pad(slots, (1, 0))),
            take(self.draft_row, parent),
            first + parent,
        )

    def target_at(self, slots: Tensor) -> Tensor:
        """Target laws, shape (B, W, V), float64, over their totals, after the prefixes of some slots, (B, W)."""
        return self._scaled(self.target, take(self.target_row, slots))

    def draft_at(self, slots: Tensor) -> Tensor:
        """The laws of their children, shape (B, W, V)."""
        return self._scaled(self.draft, take(self.draft_row, slots))

    def as_they_came(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Both laws in their own types, not divided by anything."""
        target, draft = take(self.target_row, slots), take(self.draft_row, slots)
        return self._read(self.target.read.values[target]), self._read(self.draft.read.values[draft])

    def scales_at(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """What both are multiplied by to add up to 1, shape (B, W)."""
        target, draft = take(self.target_row, slots), take(self.draft_row, slots)
        sound = self.sound[:, None]
        mine, theirs = self.target.read.scale[target], self.draft.read.scale[draft]
        return torch.where(sound, mine, 1.0), torch.where(sound, theirs, 1.0)

    def _scaled(self, laws: Rows, row: Tensor) -> Tensor:
        return self._read(laws.read.values[row].double() * laws.read.scale[row][:, :, None])

    def _read(self, found: Tensor) -> Tensor:
        return torch.where(self.sound[:, None, None], found, 1.0 / self.vocab)

"""The laws at the slots of trees, looked up a level at a time: those of all slots together would not fit."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from otspec.verification.device.by_kernels import Rows
from otspec.verification.device.layout import take


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

    @property
    def vocab(self) -> int:
        """V."""
        return self.target.read.values.shape[1]

    def target_at(self, slots: Tensor) -> Tensor:
        """Target laws, shape (B, W, V), float64, over their totals, after the prefixes of some slots, (B, W)."""
        return self._read(self.target, take(self.target_row, slots))

    def draft_at(self, slots: Tensor) -> Tensor:
        """The laws of their children, shape (B, W, V)."""
        return self._read(self.draft, take(self.draft_row, slots))

    def _read(self, laws: Rows, row: Tensor) -> Tensor:
        found = laws.read.values[row].double() * laws.read.scale[row][:, :, None]
        return torch.where(self.sound[:, None, None], found, 1.0 / self.vocab)

"""Drafting from the target's last hidden state, without a model that reads the text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from otspec.decode.base.transfers import to_device
from otspec.decode.drafters.conditioned import ConditionedDrafter
from otspec.decode.drafters.heads.model import Heads, MedusaHeads
from otspec.decode.drafters.levels import LevelDrafter, after_parents
from otspec.laws import IntArray


class HeadsDrafter(ConditionedDrafter, LevelDrafter):
    """Drafts from `Heads`, which go on from the target's hidden state at the last token that it has read.

    That token is the one before the text's last, which the target has drawn and not read.  Nothing but this state is
    carried from step to step.
    """

    model: Heads

    def depth(self, lengths: IntArray) -> int:
        """As deep as the shape, or as there are heads."""
        return min(self.shape.depth, self.model.count)

    def after_texts(self, texts: Sequence[Sequence[int]]) -> torch.Tensor:
        """The first head's logits."""
        self._state = self.model.begin(self._last().to(self.model.dtype))
        last = np.array([self._readable(text[-1:]) for text in texts])
        return self._step(to_device(last, self.model.device), 0)

    def every_level(self, texts: Sequence[Sequence[int]], depth: int) -> torch.Tensor | None:
        """Of Medusa's heads, each of which sees the target's hidden state alone [cai2024medusa]."""
        if not isinstance(self.model, MedusaHeads):
            return None
        logits = [self.after_texts(texts)]
        last = torch.zeros(len(texts), 1, dtype=torch.int64, device=self.model.device)  # is not read
        return torch.cat([*logits, *(self._step(last, number) for number in range(1, depth))], dim=1)

    def after_level(self, read: torch.Tensor, level: int, parents: torch.Tensor, lineage: torch.Tensor) -> torch.Tensor:
        """The logits of the head of that level."""
        self._state = after_parents(self._state, parents)
        return self._step(read, level)

    def _step(self, read: torch.Tensor, number: int) -> torch.Tensor:
        self._state, logits = self.model.step(self._state, read, number)
        return logits

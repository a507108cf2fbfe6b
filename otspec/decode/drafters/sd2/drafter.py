"""Drafting with a model that the target steers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from otspec.decode.drafters.conditioned import ConditionedDrafter
from otspec.decode.drafters.model import ModelDrafter
from otspec.decode.drafters.sd2.model import Steered
from otspec.decode.models.context import Context
from otspec.decode.models.passes.signature import Conditioning


class SteeredDrafter(ConditionedDrafter, ModelDrafter):
    """Drafts from a `Steered` model: what one step drafts is steered by the last token that the target has read.

    Keys and values stay as they were when they were made.  Each token of a prompt is steered by the one before it, and
    so is each that became text before the draft model has read it: in training, too, no token is steered by the
    target's hidden states at that token itself.
    """

    model: Steered
    _shifts: torch.Tensor
    """For the drafts of a step, shape (layers, B, 1, added)."""

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts but for their last tokens, each token steered by the one before it."""
        conditioning = Conditioning(shifts=self.model.shifts(self._before()))
        self.context = Context(self.model, [self._readable(text[:-1]) for text in texts], conditioning=conditioning)

    def begin_step(self, texts: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
        """Steer by the last token that the target has read of each text, and what is unread by the tokens before."""
        unread = [len(text) - length for text, length in zip(texts, self.context.length.tolist(), strict=True)]
        self._features = (self._before_unread(unread),)
        return texts

    def commit(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep what was read, and the target's hidden states at the rest where nothing was."""
        self._left = None if self.context.trial else [self._seen[row] for row in rows]
        super().commit(accepted, rows)

    def _of_text(self) -> Conditioning:
        shifts = self.model.shifts(*self._features)
        self._shifts = shifts[:, :, -1:]
        return Conditioning(shifts=shifts)

    def _of_drafts(self, parents: torch.Tensor) -> Conditioning:
        return Conditioning(shifts=self._shifts)

"""Drafting with a model that the target steers."""

from __future__ import annotations

from collections.abc import Sequence

from otspec.decode.drafters.model import ModelDrafter
from otspec.decode.drafters.watching import WatchingDrafter
from otspec.decode.models.context import Context
from otspec.decode.models.steered import SteeredLlama


class SteeredDrafter(WatchingDrafter, ModelDrafter):
    """Drafts from a `SteeredLlama`: what one step reads is steered by the last token that the target has read.

    Keys and values stay as they were when they were made.  Each token of a prompt is steered by the one before it.
    """

    model: SteeredLlama

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts but for their last tokens, each token steered by the one before it."""
        shifts = self.model.shifts(self._before())
        self.context = Context(self.model, [self._readable(text[:-1]) for text in texts], shifts=shifts)

    def _begin_step(self, texts: Sequence[Sequence[int]]) -> None:
        """Steer by the last token that the target has read of each text."""
        self.context.reader.shifts = self.model.shifts(self._last().unsqueeze(1))

"""Drafting with a model that the target steers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.utils.rnn import pad_sequence

from otspec.decode.drafters.model import ModelDrafter
from otspec.decode.drafters.protocol import Drafts
from otspec.decode.models.context import Context
from otspec.decode.models.steered import SteeredLlama
from otspec.errors import ProblemError


class SteeredDrafter(ModelDrafter):
    """A `ModelDrafter` of a `SteeredLlama`: what one step reads is steered by the last token that the target has read.

    Keys and values stay as they were when they were made.  Each token of a prompt is steered by the one before it.
    """

    model: SteeredLlama

    @property
    def layers(self) -> Sequence[int]:
        """Of the target, for the steering vector."""
        layers: Sequence[int] = self.model.config.features
        return layers

    def watch(self, features: Sequence[torch.Tensor]) -> None:
        """Remember what the target thinks.

        Raises
        ------
        ProblemError
            If its hidden states are not those that the model was trained with.
        """
        width = features[0].shape[-1]
        if width != self.model.config.feature_width:
            raise ProblemError(
                f"the target's hidden states have width {width}, and the draft model is steered by "
                f"{self.model.config.feature_width}; it was trained for another target"
            )
        self._seen = features

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts but for their last tokens, each token steered by the one before it."""
        # The first token has none before it, and the last that is read needs not its own.
        before = pad_sequence([torch.cat((torch.zeros_like(one[:1]), one[:-1])) for one in self._seen], True)
        self.context = Context(self.model, [self._readable(text[:-1]) for text in texts], shifts=self._shifts(before))

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft, steered by the last token that the target has read of each text."""
        last = torch.stack([one[-1] if len(one) else one.new_zeros(one.shape[1:]) for one in self._seen])
        self.context.reader.shifts = self._shifts(last.unsqueeze(1))
        return super().draft(texts, depth)

    def _shifts(self, features: torch.Tensor) -> torch.Tensor:
        return self.model.shifts(features)

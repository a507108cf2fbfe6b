"""Drafting with an EAGLE-style model."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from otspec.decode.drafters.conditioned import ConditionedDrafter
from otspec.decode.drafters.eagle.model import Eagle
from otspec.decode.drafters.hidden_states import last_layer
from otspec.decode.drafters.levels import after_parents
from otspec.decode.drafters.model import ModelDrafter
from otspec.decode.models.context import Context
from otspec.decode.models.passes.signature import Conditioning


class EagleDrafter(ConditionedDrafter, ModelDrafter):
    """Drafts from an `Eagle` model: with every token of the text it reads the target's features at the token before it.

    Accepted drafts are read anew, with the target's features in place of the model's own outputs.
    """

    model: Eagle

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts but for their last tokens."""
        layers = last_layer(self.model)
        told = Conditioning(added=self.model.conditioning(self._before()))
        self.context = Context(self.model, [self._readable(text[:-1]) for text in texts], layers, told)

    def begin_step(self, texts: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
        """What has not been read of a text is read with the target's features of the tokens before."""
        unread = [len(text) - length for text, length in zip(texts, self.context.length.tolist(), strict=True)]
        self._told = (self._before_unread(unread),)
        return texts

    def commit(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep what was read of the text, and none of the drafts."""
        self._left = None if self.context.trial else [self._seen[row] for row in rows]
        super().commit([[] for _ in accepted], rows)

    def _of_text(self) -> Conditioning:
        return Conditioning(added=self.model.conditioning(*self._told))

    def _of_drafts(self, parents: torch.Tensor) -> Conditioning:
        """The model's own outputs stand in for what the target has not said yet."""
        outputs = self._read.states[:, -self._read.logits.shape[1] :, 0]
        return Conditioning(added=self.model.added_of_own(after_parents(outputs, parents)))

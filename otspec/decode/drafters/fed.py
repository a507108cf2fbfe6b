"""Drafting with a model that is fed what the target thinks."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from otspec.decode.drafters.model import ModelDrafter
from otspec.decode.drafters.watching import WatchingDrafter
from otspec.decode.models.context import Context
from otspec.decode.models.fed import FedLlama


class FedDrafter(WatchingDrafter, ModelDrafter):
    """Drafts from a `FedLlama`: with every token of the text it reads the target's features at the token before it.

    Accepted drafts are read anew, with the target's features in place of the model's own outputs.
    """

    model: FedLlama
    _left: Sequence[torch.Tensor] | None = None
    """Features from before the last step where that drafted nothing: their tokens have not been read yet."""

    def watch(self, features: Sequence[torch.Tensor]) -> None:
        """Remember what the target thinks until it has been read."""
        super().watch(features)
        if self._left is not None:
            self._seen = [torch.cat(both) for both in zip(self._left, features, strict=True)]

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts but for their last tokens."""
        layers = (self.model.config.num_hidden_layers,)
        added = self.model.added_of(self._before())
        self.context = Context(self.model, [self._readable(text[:-1]) for text in texts], layers, added=added)

    def _begin_step(self, texts: Sequence[Sequence[int]]) -> None:
        """What has not been read of a text is fed the target's features of the tokens before."""
        unread = [len(text) - length for text, length in zip(texts, self.context.length.tolist(), strict=True)]
        columns = max(unread)
        padded = self._seen[0].new_zeros(len(texts), columns, *self._seen[0].shape[1:])
        for row, (one, count) in enumerate(zip(self._seen, unread, strict=True)):
            known = one[-count:]  # a text of one token has no token before it
            padded[row, columns - len(known) :] = known
        self.context.reader.added = self.model.added_of(padded)
        self._width = 1

    def settle(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep what was read of the text, and none of the drafts."""
        self._left = None if self.context.trial else [self._seen[row] for row in rows]
        super().settle([[] for _ in accepted], rows)

    def _feed(self, children: int) -> None:
        """The model's own outputs stand in for what the target has not said yet."""
        outputs = self.context.reader.features[:, -self._width :, 0]
        fed: torch.Tensor = self.model.added_of_own(outputs.repeat_interleave(children, dim=1))
        self.context.reader.added = fed
        self._width *= children

"""Drafting with models that receive the target's hidden states: what all of them have in common."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

from otspec.decode.drafters.drafter import Drafter
from otspec.errors import ProblemError


class ConditionedDrafter(Drafter):
    """A drafter whose model was trained for a target, and receives its hidden states."""

    model: PreTrainedModel
    _seen: Sequence[torch.Tensor]
    _left: Sequence[torch.Tensor] | None = None
    """Features from before the last step where that drafted nothing: their tokens have not been read yet."""

    @property
    def layers(self) -> Sequence[int]:
        """Of the target."""
        layers: Sequence[int] = self.model.config.features
        return layers

    def observe(self, features: Sequence[torch.Tensor]) -> None:
        """Store hidden states of the target, until the tokens that they are of have been read.

        Raises
        ------
        ProblemError
            If its hidden states are not those that the model was trained with.
        """
        width = features[0].shape[-1]
        if width != self.model.config.feature_width:
            raise ProblemError(
                f"the target's hidden states have width {width}, and the draft model was trained with "
                f"{self.model.config.feature_width}; it belongs to another target"
            )
        if self._left is not None:
            features = [torch.cat(both) for both in zip(self._left, features, strict=True)]
        self._seen = features

    def _before(self) -> torch.Tensor:
        """Of each token of a prompt but the last: the features of the token before it, padded on the right.

        The first token has none before it, which is 0.
        """
        return pad_sequence([torch.cat((torch.zeros_like(one[:1]), one[:-1])) for one in self._seen], True)

    def _before_unread(self, counts: Sequence[int]) -> torch.Tensor:
        """Of the last so many tokens of each text: the features of the token before it, padded on the left with 0."""
        columns = max(counts)
        if len(counts) == 1 and len(self._seen[0]) >= columns:
            return self._seen[0][-columns:].unsqueeze(0)
        padded = self._seen[0].new_zeros(len(counts), columns, *self._seen[0].shape[1:])
        for row, (one, count) in enumerate(zip(self._seen, counts, strict=True)):
            known = one[-count:]  # a text of one token has no token before it
            padded[row, columns - len(known) :] = known
        return padded

    def _last(self) -> torch.Tensor:
        """The features of the last token of each text that the target has read, 0 where it has read none."""
        return torch.stack([one[-1] if len(one) else one.new_zeros(one.shape[1:]) for one in self._seen])

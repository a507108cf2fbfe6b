"""How a draft model of some kind is made, and how it is called in training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch.nn import Parameter
from transformers import PreTrainedModel

from otspec.decode.distillation.losses import LOSSES, OF_FEATURES, Prediction, loss_named, terms_of
from otspec.decode.distillation.teacher import TeacherBatch
from otspec.errors import ProblemError
from otspec.laws import IntArray


class DraftModelInit(NamedTuple):
    """What a draft model that is to be trained is made of."""

    target: PreTrainedModel
    draft: Any = None
    """A draft model, in place; None if the kind is made of the target."""
    ahead: int = 1
    """How many tokens in a row are drafted."""
    draft_tokens: IntArray | None = None
    """Those of the target's tokens that are drafted, ascending, shape (k,), if the kind can leave others out."""


Begin = Callable[[DraftModelInit], PreTrainedModel]
"""Makes the model that learns."""


class OutputFn(Protocol):
    """How a draft model is called with a batch."""

    def __call__(
        self, model: Any, batch: TeacherBatch, generator: torch.Generator, passes: int
    ) -> Sequence[Prediction]:
        """Its predictions after the tokens of a batch but the last, as the first draft, as the second, ...

        The i-th, from 0 on, is of shape (B, N - i, ...) at least: predictions after all tokens, or after the last of
        them, as there are no i drafts behind the first.

        Parameters
        ----------
        model : PreTrainedModel
        batch : TeacherBatch
        generator : Generator
            For what is random about it.
        passes : int
            How many drafts in a row, if it predicts several.
        """


@dataclass(frozen=True)
class DraftModelSpec:
    """How a draft model of some kind is made and called."""

    summary: str
    begin: Begin
    """Makes it."""
    layers: Callable[[PreTrainedModel], Sequence[int]]
    """The target's layers whose features it receives."""
    answers: OutputFn
    ahead: int | None = None
    """How many drafts in a row it learns; None: one, as the next is made in the same way."""
    measured: int = 1
    """How many of them are measured, where the model does not set that."""
    decay: float = 1.0
    """The weight of a draft in the loss, over that of the one before it."""
    loss: str = "kl"
    """The loss by default, a name of `otspec.decode.distillation.losses.LOSSES`."""
    optimiser: str = "adamw"
    """The optimiser by default, one of `otspec.decode.training.optimiser.OPTIMISERS`."""
    drafts_features: bool = False
    """Whether its outputs stand for the target's hidden states."""
    of_target: bool = False
    """Whether it is made of the target, and no draft model is needed."""
    learns: Callable[[str], bool] = lambda name: True
    """Which of its weights learn, by name."""
    like: str | None = None
    """The kind whose models these are too, if they differ in how they learn alone."""
    built: bool = False
    """Whether it is made for so many drafts in a row, and no other number of them."""
    shares: bool = False
    """Whether it has the target's own embedding and head: then it can leave tokens out, and the target may be held in
    another precision."""

    def learning(self, model: PreTrainedModel) -> list[Parameter]:
        """The weights of a model that learn; the others are frozen."""
        for name, weights in model.named_parameters():
            if not self.learns(name):
                weights.requires_grad_(False)
        return [weights for weights in model.parameters() if weights.requires_grad]

    def check_on_policy(self, share: float, target: PreTrainedModel) -> None:
        """Raise unless the kind can be trained with that share of texts that it has written itself."""
        if not 0 <= share <= 1:
            raise ProblemError(f"the share of on-policy text is {share}; it is a number from 0 to 1, such as 0.5")
        if share and self.layers(target):
            raise ProblemError(
                "on-policy text is written by the draft model alone, and this kind needs its target's hidden states "
                "to draft; train the draft model itself (distilled)"
            )

    def check_loss(self, name: str) -> None:
        """Raise unless the kind can be trained by that loss."""
        loss_named(name)
        if not self.drafts_features and any(one in OF_FEATURES for _, one in terms_of(name)):
            others = " or ".join(one for one in LOSSES if one not in OF_FEATURES)
            raise ProblemError(
                f"loss {name!r} is of hidden states that a model drafts, and this kind drafts none; pass {others}"
            )

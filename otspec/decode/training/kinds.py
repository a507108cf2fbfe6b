"""Kinds of draft models that can be trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from transformers import DynamicCache, PreTrainedModel

from otspec.decode.models.fed import FedLlama
from otspec.decode.models.heads import MedusaHeads, MlpSpeculator
from otspec.decode.models.steered import SteeredLlama, to_one_size
from otspec.decode.training.lessons import Lesson
from otspec.decode.training.losses import LOSSES, OF_FEATURES, Said
from otspec.errors import ProblemError

PASSES = 3
"""How many tokens in a row a fed model learns to draft on its own outputs, and how many are measured."""


Begin = Callable[[PreTrainedModel, Any, int], PreTrainedModel]
"""Target, draft model, which may be None if the kind is made of the target, and how many tokens in a row are drafted
to what learns."""


class Answers(Protocol):
    """How a draft model is asked about a lesson."""

    def __call__(self, model: Any, lesson: Lesson, generator: torch.Generator, passes: int) -> Sequence[Said]:
        """What it says after the tokens of a lesson but the last, first as the first draft, then as the second, ...

        The i-th, from 0 on, is of shape (B, N - i, ...) at least: what it says after all tokens, or after the last of
        them, as there are no i drafts behind the first.

        Parameters
        ----------
        model : PreTrainedModel
        lesson : Lesson
        generator : Generator
            For what is random about it.
        passes : int
            How many drafts in a row, if it is asked about several.
        """


@dataclass(frozen=True)
class Kind:
    """How a draft model of some kind is made and asked."""

    summary: str
    begin: Begin
    """Makes it."""
    layers: Callable[[PreTrainedModel], Sequence[int]]
    """What it looks at of the target."""
    answers: Answers
    ahead: int | None = None
    """How many drafts in a row it learns; None: one, as the next is made in the same way."""
    measured: int = 1
    """How many of them are measured, where the model does not say."""
    decay: float = 1.0
    """What a draft counts for in the loss, over the one before it."""
    loss: str = "kl"
    """What is made small if nothing else is said, a name of `otspec.decode.training.losses.LOSSES`."""
    drafts_features: bool = False
    """Whether its outputs stand for the target's hidden states."""
    of_target: bool = False
    """Whether it is made of the target, and no draft model is needed."""

    def check_loss(self, name: str) -> None:
        """Raise unless the kind can be trained by that loss."""
        if name not in LOSSES:
            raise ProblemError(f"no loss {name!r}; known: {', '.join(LOSSES)}")
        if name in OF_FEATURES and not self.drafts_features:
            others = " or ".join(one for one in LOSSES if one not in OF_FEATURES)
            raise ProblemError(
                f"loss {name!r} is of hidden states that a model drafts, and this kind drafts none; pass {others}"
            )


def three_layers(target: PreTrainedModel) -> tuple[int, int, int]:
    """Low, middle and high: after 3, half, and all but 2 of the layers [berdozsteering, Section 4].

    Where there are fewer than 6, low and high are at most as far from the middle as that.
    """
    count = int(target.config.get_text_config().num_hidden_layers)
    middle = count // 2
    return min(3, middle), middle, max(count - 2, middle)


def last_layer(target: PreTrainedModel) -> tuple[int]:
    """What the target's head gets: after all layers."""
    return (int(target.config.get_text_config().num_hidden_layers),)


def _steered(place: str = "up") -> Begin:
    def begin(target: PreTrainedModel, draft: Any, ahead: int) -> PreTrainedModel:
        return SteeredLlama.of(draft, three_layers(target), target.config.get_text_config().hidden_size, place)

    return begin


def _frozen(target: PreTrainedModel, draft: Any, ahead: int) -> PreTrainedModel:
    model = _steered()(target, draft, ahead)
    for name, weights in model.named_parameters():
        weights.requires_grad_(name.startswith("steering."))
    return model


def _copied(target: PreTrainedModel, draft: Any, ahead: int) -> PreTrainedModel:
    model: PreTrainedModel = draft
    return model


def _plain(model: Any, lesson: Lesson, generator: torch.Generator, passes: int) -> list[Said]:
    return [Said(model(input_ids=lesson.tokens[:, :-1], use_cache=False).logits)]


def steering_of(features: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """The features that tokens see which come so many later, 0 where there are none yet.

    Parameters
    ----------
    features : Tensor, shape (B, N, layers, width)
    offsets : Tensor of int, shape (B, N)
    """
    source = torch.arange(features.shape[1], device=features.device) - offsets
    index = source.clamp(min=0)[..., None, None].expand(-1, -1, *features.shape[2:])
    return torch.where((source >= 0)[..., None, None], features.gather(1, index), 0)


LONGEST = 8
"""The largest offset, k in [berdozsteering]."""


def _random_offsets(lesson: Lesson, generator: torch.Generator) -> torch.Tensor:
    """An offset for each token, from 1 to `LONGEST`."""
    shape = lesson.tokens[:, :-1].shape
    return torch.randint(1, LONGEST + 1, shape, generator=generator).to(lesson.tokens.device)


def _blocked_offsets(lesson: Lesson, generator: torch.Generator) -> torch.Tensor:
    """1 to `LONGEST` again and again, as in decoding where all drafts are accepted; where it begins is random."""
    rows, columns = lesson.tokens[:, :-1].shape
    first = torch.randint(LONGEST, (rows, 1), generator=generator)
    return (1 + (first + torch.arange(columns)) % LONGEST).to(lesson.tokens.device)


def _steered_answers(offsets: Callable[[Lesson, torch.Generator], torch.Tensor]) -> Answers:
    def answers(model: Any, lesson: Lesson, generator: torch.Generator, passes: int) -> list[Said]:
        shifts = model.shifts(steering_of(lesson.features, offsets(lesson, generator)))
        return [Said(model(input_ids=lesson.tokens[:, :-1], shifts=shifts, use_cache=False).logits)]

    return answers


def _fed(target: PreTrainedModel, draft: Any, ahead: int) -> PreTrainedModel:
    return FedLlama.of(draft, three_layers(target), target.config.get_text_config().hidden_size)


def _eagle(target: PreTrainedModel, draft: Any, ahead: int) -> PreTrainedModel:
    return FedLlama.of_target(target)


NOISE = 0.1
"""What the target's hidden states, scaled to a root mean square of 1, are off by at most while a model learns to draft
such states itself, which will be off, too [li2024eagle]."""


def _fed_answers(model: Any, lesson: Lesson, generator: torch.Generator, passes: int) -> list[Said]:
    """As the first, second, ... draft after what the target has read, each of shape (B, N, ...).

    In the first pass every token is fed the target's features at the token before it.  In each that follows, it is fed
    the model's own output there in the pass before; it attends to itself, to the drafts before it, one of each pass,
    and of the first pass to the tokens before these: as it will in decoding, where accepted drafts are read anew.
    """
    tokens = lesson.tokens[:, :-1]
    rows, columns = tokens.shape
    features = lesson.features
    if model.training and model.config.drafts_features:
        noise = torch.rand(features.shape, generator=generator).to(features.device)
        features = to_one_size(features) + NOISE * (2 * noise - 1)
    added = model.added_of(steering_of(features, torch.ones_like(tokens)))
    at = torch.arange(columns, device=tokens.device)
    cache = DynamicCache()
    least = torch.finfo(model.dtype).min
    found = []
    for number in range(passes):
        # Of pass i, the draft i tokens after the last that the target has read; of pass 0, all up to that.
        sees = [at <= at[:, None] - number, *(at == at[:, None] - number + earlier for earlier in range(1, number + 1))]
        sees[0] |= at == 0  # the first tokens have no drafts before them: they see something, and count for little
        mask = torch.zeros(columns, columns * (number + 1), dtype=model.dtype, device=tokens.device)
        mask.masked_fill_(~torch.cat(sees, dim=1), least)
        said = model(
            input_ids=tokens,
            added=added,
            attention_mask=mask.expand(rows, 1, -1, -1),
            position_ids=at.expand(rows, -1),
            past_key_values=cache,
            use_cache=True,
            output_hidden_states=True,
        )
        outputs = said.hidden_states[-1]
        found.append(Said(said.logits, outputs))
        added = model.added_of_own(torch.cat((torch.zeros_like(outputs[:, :1]), outputs[:, :-1]), dim=1))
    return found


def _medusa(target: PreTrainedModel, draft: Any, ahead: int) -> PreTrainedModel:
    return MedusaHeads.of(target, ahead)


def _mlp(target: PreTrainedModel, draft: Any, ahead: int) -> PreTrainedModel:
    return MlpSpeculator.of(target, ahead)


def _heads_answers(model: Any, lesson: Lesson, generator: torch.Generator, passes: int) -> list[Said]:
    """Of every head: it goes on from what the target thought as many tokens earlier as its number says, and one."""
    tokens = lesson.tokens[:, :-1]
    features = steering_of(lesson.features, torch.ones_like(tokens))[:, :, -1]
    return [Said(logits) for logits in model.along(tokens, features)]


KINDS: Mapping[str, Kind] = {
    "distilled": Kind("the draft model itself", _copied, lambda target: (), _plain),
    "sd2": Kind("steered by the target's hidden states", _steered(), three_layers, _steered_answers(_random_offsets)),
    "eagle": Kind(
        "fed the target's hidden states, token by token",
        _fed,
        three_layers,
        _fed_answers,
        ahead=PASSES,
        measured=PASSES,
    ),
    "eagle1": Kind(
        "a layer that drafts the target's last hidden state",
        _eagle,
        last_layer,
        _fed_answers,
        ahead=1,
        measured=PASSES,
        loss="eagle",
        drafts_features=True,
        of_target=True,
    ),
    "medusa": Kind(
        "heads on the target's last hidden state",
        _medusa,
        last_layer,
        _heads_answers,
        ahead=4,
        decay=0.8,
        of_target=True,
    ),
    "mlp": Kind(
        "the same, and a state that reads the drafts", _mlp, last_layer, _heads_answers, ahead=3, of_target=True
    ),
    "sd2-frozen": Kind("sd2, steering alone learns", _frozen, three_layers, _steered_answers(_random_offsets)),
    "sd2-blocked": Kind("sd2, offsets as in decoding", _steered(), three_layers, _steered_answers(_blocked_offsets)),
    "sd2-after": Kind("sd2, added after the MLP", _steered("after"), three_layers, _steered_answers(_random_offsets)),
}
"""By name; the last three are the ablations of [berdozsteering, A.4]."""

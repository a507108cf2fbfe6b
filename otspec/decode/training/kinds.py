"""Kinds of draft models that can be trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel

from otspec.decode.models.fed import FedLlama
from otspec.decode.models.steered import SteeredLlama
from otspec.decode.training.lessons import Lesson

Answers = Callable[[Any, Lesson, torch.Generator], torch.Tensor]
"""A draft model's logits after each token of a lesson but the last, shape (B, N, V); or of several passes over it,
shape (passes, B, N, V)."""


@dataclass(frozen=True)
class Kind:
    """How a draft model of some kind is made and asked."""

    summary: str
    begin: Callable[[PreTrainedModel, PreTrainedModel], PreTrainedModel]
    """From target and draft model."""
    layers: Callable[[PreTrainedModel], Sequence[int]]
    """What it looks at of the target."""
    answers: Answers


def three_layers(target: PreTrainedModel) -> tuple[int, int, int]:
    """Low, middle and high: after 3, half, and all but 2 of the layers [berdozsteering, Section 4].

    Where there are fewer than 6, low and high are at most as far from the middle as that.
    """
    count = int(target.config.get_text_config().num_hidden_layers)
    middle = count // 2
    return min(3, middle), middle, max(count - 2, middle)


def _steered(target: PreTrainedModel, draft: PreTrainedModel, place: str = "up") -> PreTrainedModel:
    return SteeredLlama.of(draft, three_layers(target), target.config.get_text_config().hidden_size, place)


def _copied(target: PreTrainedModel, draft: PreTrainedModel) -> PreTrainedModel:
    return draft


def _plain(model: Any, lesson: Lesson, generator: torch.Generator) -> torch.Tensor:
    logits: torch.Tensor = model(input_ids=lesson.tokens[:, :-1], use_cache=False).logits
    return logits


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
    def answers(model: Any, lesson: Lesson, generator: torch.Generator) -> torch.Tensor:
        shifts = model.shifts(steering_of(lesson.features, offsets(lesson, generator)))
        logits: torch.Tensor = model(input_ids=lesson.tokens[:, :-1], shifts=shifts, use_cache=False).logits
        return logits

    return answers


PASSES = 3
"""How many tokens in a row a fed model learns to draft on its own outputs."""


def _fed(target: PreTrainedModel, draft: PreTrainedModel) -> PreTrainedModel:
    return FedLlama.of(draft, three_layers(target), target.config.get_text_config().hidden_size)


def _fed_answers(model: Any, lesson: Lesson, generator: torch.Generator) -> torch.Tensor:
    """Logits as the first, second, ... draft after what the target has read, shape (`PASSES`, B, N, V).

    In the first pass every token is fed the target's features at the token before it.  In each that follows, it is fed
    the model's own output there in the pass before; it attends to itself, to the drafts before it, one of each pass,
    and of the first pass to the tokens before these: as it will in decoding, where accepted drafts are read anew.
    """
    tokens = lesson.tokens[:, :-1]
    rows, columns = tokens.shape
    added = model.added_of(steering_of(lesson.features, torch.ones_like(tokens)))
    at = torch.arange(columns, device=tokens.device)
    cache = DynamicCache()
    least = torch.finfo(model.dtype).min
    found = []
    for number in range(PASSES):
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
        found.append(said.logits)
        outputs = said.hidden_states[-1]
        added = model.own(torch.cat((torch.zeros_like(outputs[:, :1]), outputs[:, :-1]), dim=1))
    return torch.stack(found)


def _after(target: PreTrainedModel, draft: PreTrainedModel) -> PreTrainedModel:
    return _steered(target, draft, "after")


def _frozen(target: PreTrainedModel, draft: PreTrainedModel) -> PreTrainedModel:
    model = _steered(target, draft)
    for name, weights in model.named_parameters():
        weights.requires_grad_(name.startswith("steering."))
    return model


KINDS: Mapping[str, Kind] = {
    "distilled": Kind("the draft model itself", _copied, lambda target: (), _plain),
    "sd2": Kind("steered by the target's hidden states", _steered, three_layers, _steered_answers(_random_offsets)),
    "eagle": Kind("fed the target's hidden states, token by token", _fed, three_layers, _fed_answers),
    "sd2-frozen": Kind("the same, steering alone learns", _frozen, three_layers, _steered_answers(_random_offsets)),
    "sd2-blocked": Kind("the same, offsets as in decoding", _steered, three_layers, _steered_answers(_blocked_offsets)),
    "sd2-after": Kind("the same, added after the MLP", _after, three_layers, _steered_answers(_random_offsets)),
}
"""By name; those after the first three are the ablations of [berdozsteering, A.4]."""

"""How layers that share the target's embedding and head are made and asked while they learn [li2025eagle3]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers import PreTrainedModel

from otspec.decode.drafters.eagle.training import PASSES, in_passes
from otspec.decode.drafters.hidden_states import two_layers
from otspec.decode.drafters.shared.model import SharedLlama
from otspec.decode.lessons.kind import Kind, Origin
from otspec.decode.lessons.lesson import Lesson
from otspec.decode.lessons.losses import Prediction

AT_ONCE = 5
"""Tokens that a parallel drafter drafts in one pass."""


def _eagle3(origin: Origin) -> PreTrainedModel:
    return SharedLlama.of(origin.target, two_layers(origin.target), tokens=origin.kept)


def _parallel(origin: Origin) -> PreTrainedModel:
    return SharedLlama.of(origin.target, two_layers(origin.target), masks=origin.ahead - 1, tokens=origin.kept)


def _eagle3_answers(model: Any, lesson: Lesson, generator: torch.Generator, passes: int) -> list[Prediction]:
    """On the target's hidden states first, then on its own outputs."""

    def fed(tokens: torch.Tensor, outputs: torch.Tensor, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        before = torch.cat((torch.zeros_like(outputs[:, :1]), outputs[:, :-1]), dim=1)
        return tokens, model.added_of_own(before)

    return in_passes(model, lesson, lesson.features, passes, fed)


def _parallel_answers(model: Any, lesson: Lesson, generator: torch.Generator, passes: int) -> list[Prediction]:
    """A pass for every depth: the masks behind all tokens at once, each of which sees those before it."""
    first_mask = model.config.vocab_size - 1

    def fed(tokens: torch.Tensor, outputs: torch.Tensor, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.full_like(tokens, first_mask + number), torch.zeros_like(outputs)

    return in_passes(model, lesson, lesson.features, model.config.masks + 1, fed)


KINDS: Mapping[str, Kind] = {
    "eagle3": Kind(
        "a layer on two of the target's hidden states, with the target's embedding and head",
        _eagle3,
        two_layers,
        _eagle3_answers,
        ahead=PASSES,
        measured=PASSES,
        optimiser="muon",
        of_target=True,
        shares=True,
    ),
    "parallel": Kind(
        "the same, and drafts all depths in one pass",
        _parallel,
        two_layers,
        _parallel_answers,
        ahead=AT_ONCE,
        measured=AT_ONCE,
        decay=0.8,
        built=True,
        optimiser="muon",
        of_target=True,
        shares=True,
    ),
}
"""By name."""

"""How draft heads are made and called in training [cai2024medusa; wertheimer2024accelerating]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers import PreTrainedModel

from otspec.decode.distillation.losses import Prediction
from otspec.decode.distillation.spec import DraftModelInit, DraftModelSpec
from otspec.decode.distillation.teacher import TeacherBatch
from otspec.decode.drafters.heads.model import MedusaHeads, MlpSpeculator
from otspec.decode.drafters.hidden_states import last_layer, shifted


def _medusa(origin: DraftModelInit) -> PreTrainedModel:
    return MedusaHeads.of(origin.target, origin.ahead)


def _mlp(origin: DraftModelInit) -> PreTrainedModel:
    return MlpSpeculator.of(origin.target, origin.ahead)


def _heads_answers(model: Any, batch: TeacherBatch, generator: torch.Generator, passes: int) -> list[Prediction]:
    """Of every head: head i, from 0 on, goes on from the target's hidden state i + 1 tokens earlier."""
    tokens = batch.tokens[:, :-1]
    features = shifted(batch.features, torch.ones_like(tokens))[:, :, -1]
    return [Prediction(logits) for logits in model.along(tokens, features)]


KINDS: Mapping[str, DraftModelSpec] = {
    "medusa": DraftModelSpec(
        "heads on the target's last hidden state",
        _medusa,
        last_layer,
        _heads_answers,
        ahead=4,
        decay=0.8,
        built=True,
        of_target=True,
    ),
    "mlp": DraftModelSpec(
        "the same, and a state that reads the drafts",
        _mlp,
        last_layer,
        _heads_answers,
        ahead=3,
        built=True,
        of_target=True,
    ),
}
"""By name."""

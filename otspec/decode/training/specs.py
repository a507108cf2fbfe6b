"""Kinds of draft models that can be trained, by name: each family has its own beside its model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers import PreTrainedModel

from otspec.decode.distillation.losses import Prediction
from otspec.decode.distillation.spec import DraftModelInit, DraftModelSpec
from otspec.decode.distillation.teacher import TeacherBatch
from otspec.decode.drafters.eagle import training as eagle
from otspec.decode.drafters.heads import training as heads
from otspec.decode.drafters.sd2 import training as sd2


def _copied(origin: DraftModelInit) -> PreTrainedModel:
    model: PreTrainedModel = origin.draft
    return model


def _plain(model: Any, batch: TeacherBatch, generator: torch.Generator, passes: int) -> list[Prediction]:
    return [Prediction(model(input_ids=batch.tokens[:, :-1], use_cache=False).logits)]


def family(name: str) -> list[str]:
    """The names of the kinds whose models are those of this one, itself among them."""
    first = KINDS[name].like or name
    return [other for other, spec in KINDS.items() if (spec.like or other) == first]


KINDS: Mapping[str, DraftModelSpec] = {
    "distilled": DraftModelSpec("the draft model itself", _copied, lambda target: (), _plain),
    **sd2.KINDS,
    **eagle.KINDS,
    **heads.KINDS,
    **sd2.ABLATIONS,
}

"""How steered draft models are made and called in training [berdozsteering]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from transformers import PreTrainedModel

from otspec.decode.distillation.losses import Prediction
from otspec.decode.distillation.spec import Begin, DraftModelInit, DraftModelSpec, OutputFn
from otspec.decode.distillation.teacher import TeacherBatch
from otspec.decode.drafters.hidden_states import shifted, three_layers
from otspec.decode.drafters.sd2.model import Steered


def _steered(place: str = "up") -> Begin:
    def begin(origin: DraftModelInit) -> PreTrainedModel:
        width = origin.target.config.get_text_config().hidden_size
        return Steered.of(origin.draft, three_layers(origin.target), width, place)

    return begin


LONGEST = 8
"""The largest offset, k in [berdozsteering]."""


def _random_offsets(batch: TeacherBatch, generator: torch.Generator) -> torch.Tensor:
    """An offset for each token, from 1 to `LONGEST`."""
    shape = batch.tokens[:, :-1].shape
    return torch.randint(1, LONGEST + 1, shape, generator=generator).to(batch.tokens.device)


def _blocked_offsets(batch: TeacherBatch, generator: torch.Generator) -> torch.Tensor:
    """1 to `LONGEST` again and again, as in decoding where all drafts are accepted; where it begins is random."""
    rows, columns = batch.tokens[:, :-1].shape
    first = torch.randint(LONGEST, (rows, 1), generator=generator)
    return (1 + (first + torch.arange(columns)) % LONGEST).to(batch.tokens.device)


Offsets = Callable[[TeacherBatch, torch.Generator], torch.Tensor]


def steered_by(
    model: Steered, batch: TeacherBatch, generator: torch.Generator, offsets: Offsets = _random_offsets
) -> torch.Tensor:
    """What is added in every layer while a model reads the tokens of a batch but the last, as of `Steered.shifts`."""
    return model.shifts(shifted(batch.features, offsets(batch, generator)))


def _steered_answers(offsets: Offsets) -> OutputFn:
    def answers(model: Any, batch: TeacherBatch, generator: torch.Generator, passes: int) -> list[Prediction]:
        shifts = steered_by(model, batch, generator, offsets)
        return [Prediction(model(input_ids=batch.tokens[:, :-1], shifts=shifts, use_cache=False).logits)]

    return answers


KINDS: Mapping[str, DraftModelSpec] = {
    "sd2": DraftModelSpec(
        "steered by the target's hidden states", _steered(), three_layers, _steered_answers(_random_offsets)
    )
}
"""By name."""

ABLATIONS: Mapping[str, DraftModelSpec] = {
    "sd2-frozen": DraftModelSpec(
        "sd2, steering alone learns",
        _steered(),
        three_layers,
        _steered_answers(_random_offsets),
        learns=lambda name: name.startswith("steering."),
        like="sd2",
    ),
    "sd2-blocked": DraftModelSpec(
        "sd2, offsets as in decoding", _steered(), three_layers, _steered_answers(_blocked_offsets), like="sd2"
    ),
    "sd2-after": DraftModelSpec(
        "sd2, added after the MLP", _steered("after"), three_layers, _steered_answers(_random_offsets)
    ),
}
"""Those of [berdozsteering, A.4]."""

"""How EAGLE's layers, as they are published and engines serve them, are made and asked while they learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from otspec.decode.drafters.eagle.training import PASSES, in_passes
from otspec.decode.drafters.hidden_states import last_layer
from otspec.decode.drafters.published.config import LOOKED_AT, eagle3_layers
from otspec.decode.drafters.published.model import PublishedEagle
from otspec.decode.lessons.kind import Kind, Origin
from otspec.decode.lessons.lesson import Lesson
from otspec.decode.lessons.losses import Prediction
from otspec.errors import ProblemError


def _eagle(origin: Origin) -> PreTrainedModel:
    return PublishedEagle.of(origin.target, 1, last_layer(origin.target))


def _eagle3(origin: Origin) -> PreTrainedModel:
    return PublishedEagle.of(origin.target, 3, _three_layers(origin.target), origin.kept)


def _three_layers(target: PreTrainedModel) -> Sequence[int]:
    """Those of EAGLE-3, or the first, where a target has too few for them to ascend.

    Raises
    ------
    ProblemError
        If there are no three before the last.
    """
    if (count := int(target.config.get_text_config().num_hidden_layers)) < LOOKED_AT:
        raise ProblemError(
            f"eagle3-published looks at its target after {LOOKED_AT} of the layers, not the last, and this one has "
            f"{count}; train eagle1-published, which engines serve too, or eagle3"
        )
    low, middle, high = found = eagle3_layers(target)
    return found if low < middle < high else (0, 1, 2)


def _answers(model: Any, lesson: Lesson, generator: torch.Generator, passes: int) -> list[Prediction]:
    """On the target's hidden states first, then on its own outputs; the first token of a text is not read."""

    def fed(tokens: torch.Tensor, outputs: torch.Tensor, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        before = torch.cat((torch.zeros_like(outputs[:, :1]), outputs[:, :-1]), dim=1)
        return tokens, model.added_of_own(before)

    return in_passes(model, lesson, lesson.features, passes, fed, sees_first=False)


KINDS: Mapping[str, Kind] = {
    "eagle1-published": Kind(
        "EAGLE's layer as it is published, which engines serve",
        _eagle,
        last_layer,
        _answers,
        ahead=1,
        measured=PASSES,
        loss="eagle",
        drafts_features=True,
        of_target=True,
    ),
    "eagle3-published": Kind(
        "EAGLE-3's layer as it is published, which engines serve",
        _eagle3,
        _three_layers,
        _answers,
        ahead=PASSES,
        measured=PASSES,
        of_target=True,
        shares=True,
    ),
}
"""By name."""

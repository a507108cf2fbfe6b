"""How EAGLE-style draft models are made and asked while they learn [li2024eagle]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel

from otspec.decode.drafters.eagle.model import Eagle, EagleLlama
from otspec.decode.drafters.hidden_states import last_layer, shifted, three_layers, to_one_size
from otspec.decode.lessons.kind import Kind, Origin
from otspec.decode.lessons.lesson import Lesson
from otspec.decode.lessons.losses import Prediction

PASSES = 3
"""How many tokens in a row an EAGLE-style model learns to draft on its own outputs, and how many are measured."""


def _eagle(origin: Origin) -> PreTrainedModel:
    target = origin.target
    return Eagle.of(origin.draft, three_layers(target), target.config.get_text_config().hidden_size)


def _layer(origin: Origin) -> PreTrainedModel:
    return EagleLlama.of_target(origin.target)


NOISE = 0.1
"""What the target's hidden states, scaled to a root mean square of 1, are off by at most while a model learns to draft
such states itself, which will be off, too [li2024eagle]."""


def _eagle_answers(model: Any, lesson: Lesson, generator: torch.Generator, passes: int) -> list[Prediction]:
    """As the first, second, ... draft after what the target has read, each of shape (B, N, ...).

    In the first pass every token is fed the target's features at the token before it.  In each that follows, it is fed
    the model's own output there in the pass before; it attends to itself, to the drafts before it, one of each pass,
    and of the first pass to the tokens before these: as it will in decoding, where accepted drafts are read anew.
    """
    features = lesson.features
    if model.training and model.config.drafts_features:
        noise = torch.rand(features.shape, generator=generator).to(features.device)
        features = to_one_size(features) + NOISE * (2 * noise - 1)

    def fed(tokens: torch.Tensor, outputs: torch.Tensor, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        before = torch.cat((torch.zeros_like(outputs[:, :1]), outputs[:, :-1]), dim=1)
        return tokens, model.added_of_own(before)

    return in_passes(model, lesson, features, passes, fed)


Fed = Callable[[torch.Tensor, torch.Tensor, int], tuple[torch.Tensor, torch.Tensor]]
"""From the tokens, the outputs of the pass before, and the number of a pass to what is read in it, and is added."""


def in_passes(
    model: Any, lesson: Lesson, features: torch.Tensor, passes: int, fed: Fed, *, sees_first: bool = True
) -> list[Prediction]:
    """What a model says in several passes, each of which drafts one token further behind every token.

    Parameters
    ----------
    model : Eagle
    lesson : Lesson
    features : Tensor, shape (B, N, layers, width)
        The target's, as the first pass is fed them.
    passes : int
    fed : callable
        What the others are.
    sees_first : bool
        Whether tokens see the first of their text.
    """
    tokens = lesson.tokens[:, :-1]
    rows, columns = tokens.shape
    read, added = tokens, model.conditioning(shifted(features, torch.ones_like(tokens)))
    at = torch.arange(columns, device=tokens.device)
    cache = DynamicCache()
    least = torch.finfo(model.dtype).min
    found = []
    for number in range(passes):
        # Of pass i, the draft i tokens after the last that the target has read; of pass 0, all up to that.
        sees = [at <= at[:, None] - number, *(at == at[:, None] - number + earlier for earlier in range(1, number + 1))]
        if sees_first:
            sees[0] |= at == 0  # the first tokens have no drafts before them: they see something, and count for little
        else:
            sees[0] &= (at > 0) | (at[:, None] == 0)
        mask = torch.zeros(columns, columns * (number + 1), dtype=model.dtype, device=tokens.device)
        mask.masked_fill_(~torch.cat(sees, dim=1), least)
        prediction = model(
            input_ids=read,
            added=added,
            attention_mask=mask.expand(rows, 1, -1, -1),
            position_ids=at.expand(rows, -1),
            past_key_values=cache,
            use_cache=True,
            output_hidden_states=True,
        )
        outputs = prediction.hidden_states[-1]
        found.append(Prediction(prediction.logits, outputs))
        if number + 1 < passes:
            read, added = fed(tokens, outputs, number + 1)
    return found


OF_TARGET = ("model.embed_tokens.weight", "lm_head.weight")
"""What a layer in the target's place has of it, and keeps as it is."""

KINDS: Mapping[str, Kind] = {
    "eagle": Kind(
        "EAGLE-style: reads the target's hidden states token by token",
        _eagle,
        three_layers,
        _eagle_answers,
        ahead=PASSES,
        measured=PASSES,
    ),
    "eagle1": Kind(
        "a layer that drafts the target's last hidden state",
        _layer,
        last_layer,
        _eagle_answers,
        ahead=1,
        measured=PASSES,
        loss="eagle",
        learns=lambda name: name not in OF_TARGET,
        drafts_features=True,
        of_target=True,
    ),
}
"""By name."""

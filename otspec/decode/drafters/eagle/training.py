"""How EAGLE-style draft models are made and called in training [li2024eagle; li2025eagle3]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel

from otspec.decode.distillation.losses import Prediction
from otspec.decode.distillation.spec import Begin, DraftModelInit, DraftModelSpec
from otspec.decode.distillation.teacher import TeacherBatch
from otspec.decode.drafters.eagle.model import Eagle
from otspec.decode.drafters.eagle.settings import FEATURE_LAYERS
from otspec.decode.drafters.hidden_states import eagle3_layers, last_layer, shifted, three_layers, two_layers
from otspec.errors import ProblemError

PASSES = 3
"""How many tokens in a row a model learns to draft on its own outputs, and how many are measured."""
AT_ONCE = 5
"""Tokens that a parallel drafter drafts in one pass."""
NOISE = 0.1
"""The largest noise on the target's hidden states, as a share of their root mean square, while a model learns to draft
such states itself, which will be off, too [li2024eagle]."""


def answers(model: Any, batch: TeacherBatch, generator: torch.Generator, passes: int) -> list[Prediction]:
    """An `Eagle` model's predictions of the first, second, ... draft after what the target has read, each (B, N, ...).

    In the first pass every token is fed the target's features at the token before it.  In each that follows, it is fed
    the model's own output there in the pass before, or a mask is read in its place; it attends to itself, to the drafts
    before it, one of each pass, and of the first pass to the tokens before these: as it will in decoding, where
    accepted drafts are read anew.
    """
    config, tokens, features = model.config, batch.tokens[:, :-1], batch.features
    if model.training and config.drafts_features:
        size = features.square().mean(dim=-1, keepdim=True).sqrt()
        noise = torch.rand(features.shape, generator=generator).to(features.device)
        features = features + size * NOISE * (2 * noise - 1)
    rows, columns = tokens.shape
    read, added, outputs = tokens, model.conditioning(shifted(features, torch.ones_like(tokens))), torch.empty(0)
    at = torch.arange(columns, device=tokens.device)
    cache, least = DynamicCache(), torch.finfo(model.dtype).min
    found: list[Prediction] = []
    for number in range(config.masks + 1 if config.masks else passes):
        if number:
            before = torch.cat((torch.zeros_like(outputs[:, :1]), outputs[:, :-1]), dim=1)
            read = torch.full_like(tokens, config.vocab_size - 1 + number) if config.masks else tokens
            added = model.added_of_own(before)
        # Of pass i, the draft i tokens after the last that the target has read; of pass 0, all up to that.
        sees = [at <= at[:, None] - number, *(at == at[:, None] - number + earlier for earlier in range(1, number + 1))]
        if config.published:  # which never read the first token of a text
            sees[0] &= (at > 0) | (at[:, None] == 0)
        else:
            sees[0] |= at == 0  # the first tokens have no drafts before them: they see something, and count for little
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
    return found


def _three_of(target: PreTrainedModel) -> Sequence[int]:
    """Those of EAGLE-3, or the first, where a target has too few for them to ascend.

    Raises
    ------
    ProblemError
        If there are no three before the last.
    """
    if (count := int(target.config.get_text_config().num_hidden_layers)) < FEATURE_LAYERS:
        raise ProblemError(
            f"eagle3 reads its target after {FEATURE_LAYERS} of the layers, not the last, and this one has {count}; "
            "train eagle1, which engines serve too, or shared"
        )
    low, middle, high = found = eagle3_layers(target)
    return found if low < middle < high else (0, 1, 2)


def _fed(origin: DraftModelInit) -> PreTrainedModel:
    target = origin.target
    model: PreTrainedModel = Eagle.of(origin.draft, three_layers(target), target.config.get_text_config().hidden_size)
    return model


def _layer(arithmetic: str, layers: Callable[[PreTrainedModel], Sequence[int]], *, at_once: bool = False) -> Begin:
    def begin(origin: DraftModelInit) -> PreTrainedModel:
        masks, target = (origin.ahead - 1) * at_once, origin.target
        model: PreTrainedModel = Eagle.of_target(target, arithmetic, layers(target), masks, origin.draft_tokens)
        return model

    return begin


KINDS: Mapping[str, DraftModelSpec] = {
    "eagle": DraftModelSpec(
        "a draft model that reads the target's hidden states token by token",
        _fed,
        three_layers,
        answers,
        ahead=PASSES,
        measured=PASSES,
    ),
    "eagle1": DraftModelSpec(
        "EAGLE's layer, which drafts the target's last hidden state; engines serve it",
        _layer("eagle1", last_layer),
        last_layer,
        answers,
        ahead=1,
        measured=PASSES,
        loss="eagle",
        drafts_features=True,
        of_target=True,
    ),
    "eagle3": DraftModelSpec(
        "EAGLE-3's layer, which engines serve",
        _layer("eagle3", _three_of),
        _three_of,
        answers,
        ahead=PASSES,
        measured=PASSES,
        of_target=True,
        shares=True,
    ),
    "shared": DraftModelSpec(
        "a layer on two of the target's hidden states, with the target's embedding and head",
        _layer("shared", two_layers),
        two_layers,
        answers,
        ahead=PASSES,
        measured=PASSES,
        optimiser="muon",
        of_target=True,
        shares=True,
    ),
    "parallel": DraftModelSpec(
        "the same, and drafts all depths in one pass",
        _layer("shared", two_layers, at_once=True),
        two_layers,
        answers,
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

"""transformers' own ways to decode, without drafts and with them, measured as the other methods are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel

from otspec.decode.drafters.eagle.model import Eagle
from otspec.decode.drafters.heads.model import Heads
from otspec.decode.methods.transformers_own import measured
from otspec.decode.models.pairing import check_devices, check_sizes
from otspec.decode.step.harness import Generation
from otspec.errors import ProblemError
from otspec.laws import as_count

SCHEDULES = ("constant", "heuristic", "heuristic_transient")
"""How transformers adapts the length of drafts: not at all, or two more where all were accepted, one less if not."""


def is_known(draft: PreTrainedModel) -> bool:
    """Whether transformers can draft by a model: one that reads texts by itself."""
    return not isinstance(draft, Heads) and not (isinstance(draft, Eagle) and draft.config.arithmetic != "fed")


def plain(target: PreTrainedModel, input_ids: torch.Tensor, **settings: Any) -> Generation:
    """Decode by ``target.generate``, token by token: what a user of transformers has without any of this.

    Parameters
    ----------
    target : PreTrainedModel
    input_ids : Tensor of int, shape (B, S)
    **settings
        As in `otspec.generate`: temperature, top_k, top_p, seed, and what `generate` takes.

    Raises
    ------
    ProblemError
        As `otspec.decode.methods.transformers_own.measured` does.
    """
    return measured(target, input_ids, {"target": target}, **settings)


def assisted(
    target: PreTrainedModel,
    draft: PreTrainedModel,
    input_ids: torch.Tensor,
    *,
    depth: int = 8,
    schedule: str = "constant",
    confidence: float = 0.0,
    **settings: Any,
) -> Generation:
    """Decode one prompt by ``target.generate(assistant_model=draft)``.

    Its first target call reads the prompt as well.  Acceptance by depth is not known.

    Parameters
    ----------
    input_ids : Tensor of int, shape (1, S)
        transformers takes one prompt at a time.
    depth : int
        Tokens of a draft, `num_assistant_tokens`; of the first, where the schedule is not constant.
    schedule : str
        `num_assistant_tokens_schedule`, a name of `SCHEDULES`.
    confidence : float
        `assistant_confidence_threshold`: a draft ends where the draft model gave its last token less than that.
    **settings
        As in `otspec.generate`: temperature, top_k, top_p, seed, and what `generate` takes.

    Raises
    ------
    ProblemError
        If the prompt is empty, or the models have different tokens, or there is no such schedule or threshold, or the
        draft model is no language model.
    """
    if schedule not in SCHEDULES:
        raise ProblemError(f"no schedule {schedule!r}; known: {', '.join(SCHEDULES)}")
    if not 0 <= confidence <= 1:
        raise ProblemError(f"confidence is {confidence}; it is a probability in [0, 1]")
    if not is_known(draft):
        raise ProblemError(
            f"transformers knows no {type(draft).__name__}, which drafts from the target's hidden states; pass a "
            "causal language model, or decode by multi-draft"
        )
    check_sizes(target, draft)
    check_devices(target, draft)
    configuration = {
        "num_assistant_tokens": as_count("depth", depth),
        "num_assistant_tokens_schedule": schedule,
        "assistant_confidence_threshold": confidence,
    }
    with _configured(draft, configuration):
        return measured(target, input_ids, {"target": target, "draft": draft}, assistant_model=draft, **settings)


def assisted_lookup(
    target: PreTrainedModel, input_ids: torch.Tensor, *, depth: int = 8, ngram: int = 2, **settings: Any
) -> Generation:
    """Decode one prompt by ``target.generate(prompt_lookup_num_tokens=depth)``: transformers' own prompt lookup.

    Parameters
    ----------
    input_ids : Tensor of int, shape (1, S)
        transformers takes one prompt at a time.
    depth : int
        Tokens of a draft.
    ngram : int
        `max_matching_ngram_size`: how many last tokens of the text are looked up, or fewer.
    **settings
        As for `assisted`.

    Raises
    ------
    ProblemError
        If the prompt is empty, or depth or ngram is no count.
    """
    lookup: dict[str, Any] = {
        "prompt_lookup_num_tokens": as_count("depth", depth),
        "max_matching_ngram_size": as_count("ngram", ngram),
    }
    return measured(target, input_ids, {"target": target}, **lookup, **settings)


@contextmanager
def _configured(model: PreTrainedModel, settings: dict[str, Any]) -> Iterator[None]:
    """A model whose generation configuration has these settings for a while."""
    before = {name: getattr(model.generation_config, name) for name in settings}
    model.generation_config.update(**settings)
    try:
        yield
    finally:
        model.generation_config.update(**before)

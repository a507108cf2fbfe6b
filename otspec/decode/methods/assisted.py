"""transformers' own assisted generation, measured as the other methods are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel

from otspec.decode.harness import Generation, check_prompts, sampling_settings
from otspec.decode.metrics import Clock, Metrics
from otspec.decode.models.pairing import check_pair


def assisted(
    target: PreTrainedModel,
    draft: PreTrainedModel,
    input_ids: torch.Tensor,
    *,
    depth: int = 8,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    **settings: Any,
) -> Generation:
    """Decode one prompt by ``target.generate(assistant_model=draft)``, with drafts of constant length.

    Its first target call reads the prompt as well.  Acceptance by depth is not known.

    Parameters
    ----------
    input_ids : Tensor of int, shape (1, S)
        transformers takes one prompt at a time.
    depth : int
        Tokens of a draft.
    temperature, top_k, top_p, seed, **settings
        As in `otspec.generate`.

    Raises
    ------
    ProblemError
        If the prompt is empty, or the models have different tokens.
    """
    check_prompts(input_ids, settings.get("attention_mask"))
    check_pair(target, draft, None, None)
    settings |= sampling_settings(settings, temperature, top_k, top_p)
    constant = {
        "num_assistant_tokens": depth,
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": 0.0,
    }
    metrics, clock = Metrics(), Clock(target.device)
    with ExitStack() as stack:
        if seed is not None:
            stack.enter_context(torch.random.fork_rng())
            torch.manual_seed(seed)
        stack.enter_context(_configured(draft, constant))
        target_calls = stack.enter_context(_timed(target, clock, "target"))
        stack.enter_context(_timed(draft, clock, "draft"))
        sequences = target.generate(input_ids, assistant_model=draft, **settings)
    new = sequences[:, input_ids.shape[1] :].tolist()
    metrics.tokens = len(new[0])
    metrics.target_calls = metrics.sequence_steps = len(target_calls)
    metrics.seconds = clock.seconds()
    return Generation(sequences, metrics, new)


@contextmanager
def _configured(model: PreTrainedModel, settings: dict[str, Any]) -> Iterator[None]:
    """A model whose generation configuration has these settings for a while."""
    before = {name: getattr(model.generation_config, name) for name in settings}
    model.generation_config.update(**settings)
    try:
        yield
    finally:
        model.generation_config.update(**before)


@contextmanager
def _timed(model: PreTrainedModel, clock: Clock, phase: str) -> Iterator[list[ExitStack]]:
    """The calls of a model, each timed."""
    calls: list[ExitStack] = []

    def start(*_: Any) -> None:
        calls.append(ExitStack())
        calls[-1].enter_context(clock.on_device(phase))

    def stop(*_: Any) -> None:
        calls[-1].close()

    hooks = (model.register_forward_pre_hook(start), model.register_forward_hook(stop))
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()

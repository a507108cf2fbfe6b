"""transformers' own decoding, measured as the methods of this package are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel

from otspec.decode.base.metrics import Clock, Metrics
from otspec.decode.models.context import vocabulary
from otspec.decode.models.own_config import left_out
from otspec.decode.settings import RunSettings, check_lengths
from otspec.decode.step.harness import Generation, check_prompts, sampling_settings
from otspec.errors import ProblemError

ENDINGS = ("stopping_criteria", "stop_strings")
"""Settings that end a text at a token that nothing in the sequence distinguishes from padding."""


def measured(
    target: PreTrainedModel,
    input_ids: torch.Tensor,
    models: Mapping[str, PreTrainedModel],
    *,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    own_config: bool = True,
    **settings: Any,
) -> Generation:
    """Call ``target.generate`` and count its passes.

    The first pass of each model reads the prompt, and is counted as that; it gives the first token as well, and in
    assisted generation verifies the first draft.

    Parameters
    ----------
    target : PreTrainedModel
    input_ids : Tensor of int, shape (B, S)
    models : mapping
        Models whose passes are timed, by phase; the target's are counted.
    temperature, top_k, top_p, seed, own_config
        As in `otspec.generate`.
    **settings
        All else that `generate` takes.

    Raises
    ------
    ProblemError
        If a prompt is empty, or texts of a batch may end at something other than a token or a length.
    """
    check_lengths(settings)
    check_prompts(input_ids, settings.get("attention_mask"), vocabulary(target))
    RunSettings(seed=seed, temperature=temperature, top_k=top_k, top_p=top_p)  # raises where one is out of its range
    if len(input_ids) > 1 and (endings := [name for name in ENDINGS if settings.get(name)]):
        raise ProblemError(
            f"{endings[0]} and {len(input_ids)} prompts: transformers pads what has ended and does not return where; "
            "pass one prompt at a time"
        )
    settings |= {} if own_config else left_out(target, settings)
    settings |= sampling_settings(settings, temperature, top_k, top_p)
    metrics, clock = Metrics(), Clock(target.device)
    with ExitStack() as stack:
        if seed is not None:
            stack.enter_context(torch.random.fork_rng())
            torch.manual_seed(seed)
        calls = {phase: stack.enter_context(_timed(model, clock, phase)) for phase, model in models.items()}
        stack.enter_context(clock.running())
        sequences = target.generate(input_ids, **settings)
    eos = ending_tokens(target, settings)
    new = [_until(row, eos) for row in sequences[:, input_ids.shape[1] :].tolist()]
    metrics.tokens = sum(map(len, new))
    metrics.target_calls = len(calls["target"])
    # A text takes part in every pass until it has ended, and of several texts each pass gives each one token.
    metrics.sequence_steps = metrics.target_calls if len(new) == 1 else metrics.tokens
    metrics.seconds = clock.seconds()
    return Generation(sequences, metrics, new)


def ending_tokens(target: PreTrainedModel, settings: Mapping[str, Any]) -> set[int]:
    """The tokens that end a text, as `generate` finds them."""
    configs = (settings.get("generation_config"), target.generation_config)
    named = [settings.get("eos_token_id"), *(config.eos_token_id for config in configs if config is not None)]
    eos: Any = next((one for one in named if one is not None), [])
    return set(torch.as_tensor(eos).flatten().tolist())


def _until(tokens: Sequence[int], eos: set[int]) -> list[int]:
    """Tokens to the first that ends the text, that one included."""
    end = next((at for at, token in enumerate(tokens, start=1) if token in eos), len(tokens))
    return list(tokens[:end])


@contextmanager
def _timed(model: PreTrainedModel, clock: Clock, phase: str) -> Iterator[list[ExitStack]]:
    """The calls of a model, each timed, the first as reading of the prompt."""
    calls: list[ExitStack] = []

    def start(*_: Any) -> None:
        calls.append(ExitStack())
        calls[-1].enter_context(clock.on_device(phase if len(calls) > 1 else "prompt"))

    def stop(*_: Any) -> None:
        calls[-1].close()

    hooks = (model.register_forward_pre_hook(start), model.register_forward_hook(stop))
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()

"""The least that a machine takes for the passes of a run: the same passes again, with nothing around them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import torch
from transformers import PreTrainedModel

from otspec.decode.base.metrics import wait_for
from otspec.decode.models.context import Pass
from otspec.decode.models.passes.reader import Reader, reader_of


def floor(model: PreTrainedModel, passes: Sequence[Pass]) -> float:
    """Seconds that a model takes for passes of these shapes, one after the other: `least_seconds` of one phase.

    Examples
    --------
    >>> import otspec
    >>> from otspec.decode import floor, shipped
    >>> target, draft, tokenizer = shipped.load()
    >>> prompt = tokenizer("import numpy as", return_tensors="pt")
    >>> text = otspec.generate(target, draft, **prompt, max_new_tokens=8, seed=1)
    >>> seconds = floor(target, text.passes["target"])  # what its passes take with nothing around them
    >>> seconds > 0
    True
    """
    return least_seconds({"": model}, {"": passes})[""]


def least_seconds(models: Mapping[str, PreTrainedModel], passes: Mapping[str, Sequence[Pass]]) -> dict[str, float]:
    """Seconds that models take for the passes of a run, in their order, each over a cache that stays.

    What the passes read is prepared beforehand, and what they answer is dropped: no law is made, nothing drawn, and
    nothing verified.  The order counts: a model's weights have left the processor's caches when the other was read.

    Parameters
    ----------
    models : mapping
        The model of each phase.
    passes : mapping
        Those of a run, `Generation.passes`; phases without passes may be missing.
    """
    readers = {phase: _begun(models[phase], done) for phase, done in passes.items() if done}
    batch = {phase: done[0].batch for phase, done in passes.items() if done}
    spent = dict.fromkeys(passes, 0.0)
    in_order = sorted(((one, phase) for phase, done in passes.items() for one in done), key=lambda pair: pair[0].moment)
    with torch.no_grad():
        for one, phase in in_order:
            model, reader = models[phase], readers[phase]
            if one.batch < batch[phase]:  # a text ended
                batch[phase] = one.batch
                for block in reader.blocks:
                    block.keep(torch.arange(one.batch, device=model.device))
            inputs = _inputs(one, model)
            wait_for(model.device)
            started = time.perf_counter()
            reader.read(*inputs)
            wait_for(model.device)
            spent[phase] += time.perf_counter() - started
    return spent


def _begun(model: PreTrainedModel, passes: Sequence[Pass]) -> Reader:
    """A reader whose cache holds as many columns as the passes find at most."""
    reader, longest = reader_of(model), max(one.start for one in passes)
    if longest:
        position = _positions(passes[0].batch, longest, 0, model.device)
        with torch.no_grad():
            reader.begin(torch.zeros_like(position), torch.ones_like(position, dtype=torch.bool), position)
    return reader


def _inputs(one: Pass, model: PreTrainedModel) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, int, int]:
    mask = torch.zeros(1, 1, one.rows, one.start + one.rows, dtype=model.dtype, device=model.device)
    position = _positions(one.batch, one.rows, one.start, model.device)
    return torch.zeros_like(position), position, mask if one.masked else None, one.start, one.keep


def _positions(batch: int, rows: int, start: int, device: torch.device) -> torch.Tensor:
    return torch.arange(start, start + rows, device=device).expand(batch, -1)

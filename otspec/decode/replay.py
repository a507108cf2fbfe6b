"""The least that a machine takes for the passes of a run: the same passes again, with nothing around them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from otspec.decode.models.context import Pass
from otspec.decode.models.reader import reader_of


def floor(model: PreTrainedModel, passes: Sequence[Pass]) -> float:
    """Seconds that a model takes for passes of these shapes, one after the other over a cache that stays.

    What the passes read is prepared beforehand, and what they answer is dropped: no law is made, nothing drawn, and
    nothing verified.

    Parameters
    ----------
    model : PreTrainedModel
    passes : sequence of Pass
        Those of a run, `Generation.passes` of one phase.
    """
    if not passes:
        return 0.0
    device, reader, spent = model.device, reader_of(model), 0.0
    batch, longest = max(one.batch for one in passes), max(one.start for one in passes)
    with torch.no_grad():
        if longest:
            position = _positions(batch, longest, 0, device)
            reader.begin(torch.zeros_like(position), torch.ones_like(position, dtype=torch.bool), position)
        for one in passes:
            if one.batch < batch:  # a text ended
                batch = one.batch
                for block in reader.blocks:
                    block.keep(torch.arange(batch))
            inputs = _inputs(one, model)
            _wait(device)
            started = time.perf_counter()
            reader.read(*inputs)
            _wait(device)
            spent += time.perf_counter() - started
    return spent


def _inputs(one: Pass, model: PreTrainedModel) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, int, int]:
    mask = torch.zeros(1, 1, one.rows, one.start + one.rows, dtype=model.dtype, device=model.device)
    position = _positions(one.batch, one.rows, one.start, model.device)
    return torch.zeros_like(position), position, mask if one.masked else None, one.start, one.keep


def _positions(batch: int, rows: int, start: int, device: torch.device) -> torch.Tensor:
    return torch.arange(start, start + rows, device=device).expand(batch, -1)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)

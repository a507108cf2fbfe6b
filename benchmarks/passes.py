"""What a pass takes by ways to make it: our lean reader, transformers' own forward, and torch.compile.

    OMP_NUM_THREADS=1 python -m benchmarks.passes [--context 100] [--repeats 100] [--compiled]

For both models of the shipped pair: milliseconds of a decoding pass over so many rows after `context` tokens, all ways
in turn.  "static" is transformers' forward over its `StaticCache`, the only one that `torch.compile` does not compile
anew as the text grows; "compiled" is that compiled, and what compiling took.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Annotated

import numpy as np
import torch
import typer
from transformers import PreTrainedModel, StaticCache

from benchmarks.reporting import show
from otspec.decode import shipped
from otspec.decode.models.context import positions
from otspec.decode.models.reader import Reader, reader_of
from otspec.decode.models.transformers_reader import TransformersReader
from otspec.reporting.tables import TextTable

ROWS = {"target": (1, 4), "draft": (1,)}
"""Plain decoding reads one token at a time, a step with one path of three reads four."""


def main(
    context: Annotated[int, typer.Option(min=1, help="Tokens before the pass.")] = 100,
    repeats: Annotated[int, typer.Option(min=1, help="Of each, in turn; medians are told.")] = 100,
    compiled: Annotated[bool, typer.Option("--compiled", help="torch.compile too; it needs a C++ compiler.")] = False,
) -> None:
    """Time the ways to make a pass."""
    pair = shipped.load()
    table = []
    with torch.no_grad():
        for name, model in (("target", pair.target), ("draft", pair.draft)):
            for rows in ROWS[name]:
                ways = {"lean": _lean, "transformers": _transformers, "static": _static}
                calls = {way: make(model, context, rows) for way, make in ways.items()}
                spent = 0.0
                if compiled:
                    calls["compiled"] = _static(model, context, rows, compiled=True)
                    started = time.perf_counter()
                    calls["compiled"]()
                    spent = time.perf_counter() - started
                times = medians(calls, repeats)
                each = (*(f"{1e3 * seconds:.3f}" for seconds in times.values()), *([] if compiled else ["-"]))
                table.append((name, str(rows), *each, f"{spent:.1f}" if compiled else "-"))
    header = ("model", "rows", "lean", "transformers", "static", "compiled", "compiling, s")
    note = f"Milliseconds of a pass after {context} tokens, medians of {repeats}, all ways in turn."
    show(TextTable("Passes", header, table, note, labels=1))


def medians(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each call, made in turn."""
    times: dict[str, list[float]] = {way: [] for way in calls}
    for call in calls.values():
        call()
    for _ in range(repeats):
        for way, call in calls.items():
            started = time.perf_counter()
            call()
            times[way].append(time.perf_counter() - started)
    return {way: float(np.median(each)) for way, each in times.items()}


def _lean(model: PreTrainedModel, context: int, rows: int) -> Callable[[], torch.Tensor]:
    return _by(reader_of(model), context, rows)


def _transformers(model: PreTrainedModel, context: int, rows: int) -> Callable[[], torch.Tensor]:
    return _by(TransformersReader(model), context, rows)


def _by(reader: Reader, context: int, rows: int) -> Callable[[], torch.Tensor]:
    before = torch.arange(context)[None]
    reader.begin(torch.zeros_like(before), torch.ones_like(before, dtype=torch.bool), before)
    tokens, position = torch.zeros(1, rows, dtype=torch.int64), torch.arange(context, context + rows)[None]
    mask = None if rows == 1 else torch.zeros(1, 1, rows, context + rows)
    return lambda: reader.read(tokens, position, mask, context, rows)


def _static(model: PreTrainedModel, context: int, rows: int, compiled: bool = False) -> Callable[[], torch.Tensor]:
    cache = StaticCache(config=model.config, max_cache_len=int(positions(model)))
    model(input_ids=torch.zeros(1, context, dtype=torch.int64), past_key_values=cache, use_cache=True)
    forward = torch.compile(model.forward, dynamic=False) if compiled else model.forward
    tokens, position = torch.zeros(1, rows, dtype=torch.int64), torch.arange(context, context + rows)[None]
    mask = torch.zeros(1, 1, rows, int(positions(model)))
    mask[..., context + rows :] = torch.finfo(mask.dtype).min

    def call() -> torch.Tensor:
        for layer in cache.layers:
            layer.cumulative_length.fill_(context)
        logits: torch.Tensor = forward(
            input_ids=tokens,
            position_ids=position,
            attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=rows,
        ).logits
        return logits

    return call


if __name__ == "__main__":
    typer.run(main)

"""Text that a target writes itself: what its draft models are trained on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from otspec.decode.models.context import positions, vocabulary
from otspec.decode.models.fingerprint import fingerprint
from otspec.errors import DataError, ProblemError
from otspec.extras import require
from otspec.laws import IntArray
from otspec.writing import named

AT_ONCE = {"cpu": 64, "cuda": 2048}
"""Texts that are written at once, by device: a GPU takes hardly longer for many than for few."""


def own_texts(
    target: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    count: int,
    length: int,
    *,
    seed: int = 0,
    batch: int | None = None,
    path: Path | None = None,
    progress: Callable[[int], None] = lambda texts: None,
) -> IntArray:
    """Texts at temperature 1, each after one of the prompts in turn; nothing ends them.

    Parameters
    ----------
    target : PreTrainedModel
    prompts : sequence of lists of int
        A single beginning-of-text token makes texts that resemble what the target was trained on.
    count, length : int
        How many texts, and tokens of each, prompt included; a longer prompt is cut at its start.
    seed : int
    batch : int, optional
        Texts that are written at once, by default `AT_ONCE`; with other numbers, other texts.
    path : Path, optional
        A .safetensors file that is written after every batch; an earlier one of the same request is gone on with.
    progress : callable
        Told how many texts there are, after each batch.

    Returns
    -------
    ndarray of int, shape (count, length)

    Raises
    ------
    ProblemError
        If there is no prompt, or texts are longer than the target has positions for.
    DataError
        If the file holds other texts.
    """
    if not prompts or not all(prompts):
        raise ProblemError("a prompt is empty, or there is none; pass one token at least, as that which begins a text")
    if not 2 <= length <= positions(target) + 1:  # the last token is written, not read
        raise ProblemError(f"texts of {length} tokens; pass at least 2, and at most 1 + {positions(target)} positions")
    batch = batch or AT_ONCE.get(target.device.type, AT_ONCE["cpu"])
    asked = {"target": fingerprint(target), "seed": str(seed), "batch": str(batch), "length": str(length)}
    asked["prompts"] = hashlib.sha256(json.dumps([list(map(int, one)) for one in prompts]).encode()).hexdigest()[:16]
    found = _found(path, asked)
    while len(found) < count:
        start = len(found)
        rows = [list(prompts[(start + at) % len(prompts)])[-(length - 1) :] for at in range(batch)]
        with torch.random.fork_rng(), torch.inference_mode():
            torch.manual_seed(int(np.random.SeedSequence((seed, start)).generate_state(1)[0]))
            found = np.concatenate((found, _written(target, rows, length)))
        if path is not None:
            _save(path, found, asked)
        progress(min(len(found), count))
    return found[:count]


def _written(target: PreTrainedModel, rows: Sequence[Sequence[int]], length: int) -> IntArray:
    """One text after each prompt, prompts of one length together."""
    texts: dict[int, list[int]] = {}
    for size in sorted({len(row) for row in rows}):
        which = [number for number, row in enumerate(rows) if len(row) == size]
        prompts = torch.tensor([rows[number] for number in which], device=target.device)
        written = target.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            do_sample=True,
            top_k=0,
            max_length=length,
            eos_token_id=vocabulary(target),  # no token: nothing ends a text
            pad_token_id=0,
        )
        texts.update(zip(which, written.tolist(), strict=True))
    return np.array([texts[number] for number in range(len(rows))])


def _found(path: Path | None, asked: dict[str, str]) -> IntArray:
    none: IntArray = np.empty((0, int(asked["length"])), dtype=np.int64)
    if path is None or not path.exists():
        return none
    safetensors: Any = require("safetensors")
    with safetensors.safe_open(path, framework="numpy") as file:
        about = file.metadata() or {}
        if different := [name for name, value in asked.items() if about.get(name) != value]:
            name = different[0]
            raise DataError(f"{path} holds texts whose {name} is {about.get(name)}, not {asked[name]}; remove it")
        texts: IntArray = file.get_tensor("texts").astype(np.int64)
    return texts


def _save(path: Path, texts: IntArray, asked: dict[str, str]) -> None:
    part = path.with_name(path.name + ".part")
    with named(part):
        require("safetensors.numpy").save_file({"texts": texts.astype(np.int32)}, part, metadata=asked)
    part.replace(path)

"""Text that a target writes itself: what its draft models are trained on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from otspec.decode.distillation.self_chat import Speakers
from otspec.decode.models.context import positions, vocabulary
from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.models.passes.reader import reader_of
from otspec.decode.models.passes.signature import Inputs
from otspec.errors import DataError, ProblemError
from otspec.extras import require
from otspec.laws import IntArray
from otspec.vocab import frequency_prune
from otspec.writing import named

ASKING = "ask_temperature"
"""The field of a file of texts with the temperature of the target's own questions."""
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
    speakers: Speakers | None = None,
    temperatures: Sequence[float] = (1.0,),
    ask_temperature: float = 1.0,
    path: Path | None = None,
    progress: Callable[[int], None] = lambda texts: None,
) -> IntArray:
    """Texts of the target, each after one of the prompts in turn; nothing ends them.

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
    speakers : Speakers, optional
        The marks of turns: the target writes a user's questions and its answers [xu2024magpie].
    temperatures : sequence of float
        Of one text after the other, and of a prompt's texts one after the other.
    ask_temperature : float
        At which the target writes a user's questions: at 1 much of them is noise, for a small model.
    path : Path, optional
        A .safetensors file that is written after every batch; an earlier one of the same request is gone on with.
    progress : callable
        Called with the number of texts, after each batch.

    Returns
    -------
    ndarray of int, shape (count, length)

    Raises
    ------
    ProblemError
        If there is no prompt, or a temperature is not above 0 and finite, or texts are longer than the target has
        positions for.
    DataError
        If the file holds other texts.
    """
    if not prompts or not all(prompts):
        raise ProblemError("a prompt is empty, or there is none; pass one token at least, as that which begins a text")
    if not 2 <= length <= positions(target) + 1:  # the last token is written, not read
        raise ProblemError(f"texts of {length} tokens; pass at least 2, and at most 1 + {positions(target)} positions")
    for every in (temperatures, (ask_temperature,)):
        if not every or not all(0 < one < float("inf") for one in every):
            raise ProblemError(f"temperatures are {list(every)}; texts are drawn at finite ones above 0")
    batch = batch or AT_ONCE.get(target.device.type, AT_ONCE["cpu"])
    described = {"target": fingerprint(target), "seed": str(seed), "batch": str(batch), "length": str(length)}
    parts: list[Any] = [list(map(int, one)) for one in prompts]
    parts += [] if speakers is None else [list(one) for one in astuple(speakers)]
    parts += [] if list(temperatures) == [1.0] else [list(temperatures)]
    described["prompts"] = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    if speakers is not None:
        described[ASKING] = str(float(ask_temperature))
    found = _found(path, described)
    while len(found) < count:
        start = len(found)
        numbers = range(start, start + batch)
        rows = [list(prompts[number % len(prompts)])[-(length - 1) :] for number in numbers]
        warmth = [temperatures[sum(divmod(number, len(prompts))) % len(temperatures)] for number in numbers]
        with torch.random.fork_rng(), torch.inference_mode():
            torch.manual_seed(int(np.random.SeedSequence((seed, start)).generate_state(1)[0]))
            found = np.concatenate((found, _written(target, rows, warmth, length, speakers, ask_temperature)))
        if path is not None:
            _save(path, found, described)
        progress(min(len(found), count))
    return found[:count]


def read_texts(path: Path, target: PreTrainedModel) -> IntArray:
    """The texts of a file that `own_texts` has written for this target, shape (count, length).

    Raises
    ------
    DataError
        If there is no such file, or it holds something else, or texts of another target.
    """
    texts, about = _read(path)
    if about.get("target") != fingerprint(target):
        raise DataError(
            f"{path} holds texts that another target has written; write some of this one, by `otspec texts`"
        )
    return texts


def _written(
    target: PreTrainedModel,
    rows: Sequence[Sequence[int]],
    temperatures: Sequence[float],
    length: int,
    speakers: Speakers | None,
    ask_temperature: float,
) -> IntArray:
    """One text after each prompt, prompts of one length together, shape (rows, length)."""
    texts: IntArray = np.zeros((len(rows), length), dtype=np.int64)
    for size in sorted({len(row) for row in rows}):
        which = [number for number, row in enumerate(rows) if len(row) == size]
        prompts = torch.tensor([list(rows[number]) for number in which], device=target.device)
        warmth = torch.tensor([temperatures[number] for number in which], device=target.device)
        texts[which] = continued(target, prompts, warmth, length, speakers, ask_temperature).cpu().numpy()
    return texts


def continued(
    model: PreTrainedModel,
    prompts: torch.Tensor,
    temperature: torch.Tensor,
    length: int,
    speakers: Speakers | None = None,
    ask_temperature: float = 1.0,
    most: int | None = None,
) -> torch.Tensor:
    """Texts that a model writes after prompts, by torch's own random numbers.

    Parameters
    ----------
    model : PreTrainedModel
    prompts : Tensor of int, shape (B, S)
    temperature : Tensor, shape (B,)
    length : int
        Tokens of each, prompt included.
    speakers : Speakers, optional
    ask_temperature : float
        Of a user's questions.
    most : int, optional
        So many of the first tokens alone are written.

    Returns
    -------
    Tensor of int, shape (B, length)
    """
    count, size = prompts.shape
    reader, floor = reader_of(model), None if speakers is None else speakers.begin(count)
    texts = torch.zeros(count, length, dtype=torch.long, device=model.device)
    texts[:, :size] = prompts
    position = torch.arange(length, device=model.device).expand(count, -1)
    present = torch.ones_like(prompts, dtype=torch.bool)
    logits = reader.read(Inputs(prompts, position[:, :size], present=present)).logits
    for at in range(size, length):
        own = 1.0 if floor is None else temperature.new_tensor(floor.answering)
        warmth = temperature * own + ask_temperature * (1 - own)
        drawn = torch.multinomial((logits[:, -1, :most].float() / warmth[:, None]).softmax(-1), 1)[:, 0]
        texts[:, at] = drawn if floor is None else drawn.new_tensor(floor.observe(drawn.tolist()))
        if at + 1 < length:
            logits = reader.read(Inputs(texts[:, at : at + 1], position[:, at : at + 1], start=at)).logits
    return texts


def _found(path: Path | None, described: dict[str, str]) -> IntArray:
    none: IntArray = np.empty((0, int(described["length"])), dtype=np.int64)
    if path is None or not path.exists():
        return none
    texts, about = _read(path)
    about = {ASKING: "1.0", **about}  # former files do not have it
    if different := [name for name, value in described.items() if about.get(name) != value]:
        name = different[0]
        if name == "prompts":  # a digest of all of these, which says nothing to a reader
            raise DataError(f"{path} holds texts of other prompts, temperatures or turns; remove it, or name another")
        raise DataError(f"{path} holds texts whose {name} is {about.get(name)}, not {described[name]}; remove it")
    return texts


def _read(path: Path) -> tuple[IntArray, dict[str, str]]:
    """The texts of a file, and its record of them."""
    safetensors: Any = require("safetensors")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            return file.get_tensor("texts").astype(np.int64), file.metadata() or {}
    except (OSError, safetensors.SafetensorError) as error:
        raise DataError(f"{path} holds no texts: {error}; name another, or write it anew by `otspec texts`") from error


def _save(path: Path, texts: IntArray, described: dict[str, str]) -> None:
    part = path.with_name(path.name + ".part")
    with named(part):
        require("safetensors.numpy").save_file({"texts": texts.astype(np.int32)}, part, metadata=described)
    part.replace(path)


def most_frequent(texts: IntArray, count: int, target: PreTrainedModel) -> IntArray:
    """The most frequent tokens of texts, ascending, shape (count,)."""
    tokens: IntArray = np.sort(frequency_prune(np.bincount(texts.ravel(), minlength=vocabulary(target)), count))
    return tokens

"""A draft model of its own for another target: pretrained on what that wrote, then distilled and steered from there.

These are the three of [berdozsteering], Section 4, as a target has them for which nobody has published a small one.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.drafters.plan import PRETRAINED
from benchmarks.drafters.pretrained import new_draft, pretrain
from benchmarks.shipped_pair.recipe import Recipe, Shape, train_on_text
from otspec.decode.distillation.spec import DraftModelInit
from otspec.decode.distillation.texts import read_texts
from otspec.decode.pair.loading import Models, load_draft, load_models, with_draft
from otspec.decode.training import KINDS, TeacherData, TrainingConfig, train, train_into
from otspec.decode.training.folder import RECORD
from otspec.laws import IntArray

STAGES = (PRETRAINED, "distilled", "sd2")
HELD_OUT = 64
"""Texts that the curves are measured on, the last ones, as `otspec train` holds them out."""
TRIAL = 10
"""Steps of a trial, by which the pace of a training is known before its rates are laid out."""


def make(
    out: Path,
    target: str,
    texts: Path,
    shape: Shape,
    *,
    steps: Sequence[int] = (2000, 600, 600),
    seconds: Sequence[float] = (math.inf,) * len(STAGES),
    batch: int = 16,
    rate: float = 2e-3,
    points: int = 4,
    device: str = "cpu",
    dtype: str | None = None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Train all three into folders named as the stages are; a folder that is whole is not made again.

    Parameters
    ----------
    out : Path
    target : str
        Whose tokenizer, and whose laws.
    texts : Path
        What it has written, by `otspec texts`.
    shape : Shape
    steps : sequence of int
        Of each stage, at most.
    seconds : sequence of float
        Of each stage: a trial finds how many steps they are enough for.
    batch : int
        Texts of a step.
    rate : float
        Of the last two stages.
    points : int
        Of the curves of the last two stages, besides that at the start.
    device : str
    dtype : str, optional
        What the target is held in; what learns is held in float32.

    Yields
    ------
    str, dict
        A stage that is done, and its training.json.
    """
    models = load_models(target, None, device, dtype, packed=False)
    written = read_texts(texts, models.target)
    seen, aside = written[:-HELD_OUT], written[-HELD_OUT:]
    first = out / PRETRAINED
    if not (first / RECORD).exists():
        out.mkdir(parents=True, exist_ok=True)
        rows = list(seen[:, 1:])  # what begins them begins every window of the recipe
        recipe = Recipe(steps=steps[0], polish=0, own=0, batch=batch, context=len(rows[0]))
        _pretrain(first, models, rows, shape, recipe, seconds[0])
    yield PRETRAINED, _record(first)
    for kind, most, limit in zip(STAGES[1:], steps[1:], seconds[1:], strict=True):
        if not (out / kind / RECORD).exists():
            _learn(
                out / kind, kind, first, models, (target, seen, aside), TrainingConfig(most, rate), batch, limit, points
            )
        yield kind, _record(out / kind)


def _record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / RECORD).read_text())
    return found


def _pretrain(
    out: Path, models: Models, rows: Sequence[IntArray], shape: Shape, recipe: Recipe, seconds: float
) -> None:
    device, tokenizer = models.target.device, models.tokenizer

    def trial(steps: int) -> None:
        model = new_draft(shape, tokenizer, recipe, device)
        train_on_text(model, rows, replace(recipe, steps=steps), tokenizer.bos_token_id, device)

    steps = steps_within(seconds, recipe.steps, trial)
    pretrain(out, shape, tokenizer, rows, replace(recipe, steps=steps), device)


def _learn(
    out: Path,
    name: str,
    first: Path,
    models: Models,
    texts: tuple[str, IntArray, IntArray],
    config: TrainingConfig,
    batch: int,
    seconds: float,
    points: int,
) -> None:
    target, seen, aside = texts
    models = with_draft(models, *load_draft(str(first), str(models.target.device), "float32"))
    spec = KINDS[name]
    layers = spec.layers(models.target)
    data, held_out = (TeacherData(models.target, some, layers, batch) for some in (seen, aside))

    def trial(steps: int) -> None:
        model = spec.begin(DraftModelInit(models.target, deepcopy(models.draft)))
        train(spec, model, data, held_out, replace(config, steps=steps), every=steps)

    steps = steps_within(seconds, config.steps, trial)
    config, every = replace(config, steps=steps), -(-steps // points)
    train_into(out, name, models, (target, str(first)), data, held_out, config, every=every)


def steps_within(seconds: float, most: int, trial: Callable[[int], object]) -> int:
    """How many steps of a training fit a time, trials included, and what it takes however few steps it has.

    Parameters
    ----------
    seconds : float
    most : int
        More than these are not wanted.
    trial : callable
        Trains for so many steps.
    """
    if math.isinf(seconds):
        return most
    first, short, long = (_timed(partial(trial, steps)) for steps in (TRIAL, TRIAL, 3 * TRIAL))
    pace = max((long - short) / (2 * TRIAL), 1e-6)
    besides = max(short - TRIAL * pace, 0.0)
    return max(1, min(most, int((seconds - first - short - long - besides) / pace)))


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started

"""A draft model trained into a folder: its weights, its curve, and the record of its training."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from otspec.decode.distillation.spec import DraftModelInit
from otspec.decode.distillation.teacher import TeacherData
from otspec.decode.drafters.published.checkpoint import reading
from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.pair.loading import Models
from otspec.decode.training.loop import DAMAGED, Forecast, Point, TrainingConfig, curve_of, save, train
from otspec.decode.training.specs import KINDS
from otspec.writing import named

RECORD, CURVE, CHECKPOINT = "training.json", "curve.jsonl", "checkpoint.pt"
"""The record, once it is trained; a point a line; where a run that was killed goes on."""


def train_into(
    out: Path,
    name: str,
    models: Models,
    names: tuple[str, str | None],
    data: TeacherData,
    held_out: TeacherData,
    config: TrainingConfig,
    *,
    every: int = 50,
    earlier: Mapping[str, Any] | None = None,
    described: Mapping[str, object] | None = None,
    report: Callable[[Point], None] = lambda point: None,
    forecast: Callable[[Forecast], None] | None = None,
) -> dict[str, Any]:
    """Train a draft model of some kind and leave it in a folder; a run that was killed goes on where it stopped.

    Parameters
    ----------
    out : Path
        Made if it is not there.
    name : str
        A name of `KINDS`.
    models : Models
        Target and draft model, if the kind is made of one or goes on from one; that learns in place, in float32, as
        weights change by less than half precision resolves.
    names : pair of str
        The user's names for the two.
    data, held_out : TeacherData
        The texts to learn from, and those that the curve is measured on, with at least the layers that the kind needs.
    config : TrainingConfig
    every : int
        Steps between two points of the curve.
    earlier : mapping, optional
        The record of the earlier training that the draft model goes on from (`read_record`), if there is one.
    described : mapping, optional
        More entries of the record.
    report : callable
        Gets the points of the curve.
    forecast : callable, optional
        Called with the expected cost of the training before it begins; not where it goes on.

    Returns
    -------
    dict
        The record, as in training.json.
    """
    spec = KINDS[name]
    config = config.of(spec)
    spec.check_loss(str(config.loss))
    out.mkdir(parents=True, exist_ok=True)
    before = None if models.draft is None else fingerprint(models.draft)  # training is in place
    if earlier is not None:
        assert models.draft is not None
        model = models.draft
    else:
        with torch.random.fork_rng():
            torch.manual_seed(config.seed)
            model = spec.begin(DraftModelInit(models.target, models.draft, config.ahead or 1, data.draft_tokens))
    checkpoint = out / CHECKPOINT
    with reading(checkpoint, DAMAGED):
        curve = curve_of(torch.load(checkpoint, map_location="cpu")) if checkpoint.exists() else []
    if forecast is not None and not checkpoint.exists():
        forecast(Forecast.of(spec, model, data, held_out, config, every))
    mode = "w" if curve or not checkpoint.exists() else "a"  # a checkpoint that is not ours will be refused
    with named(out / CURVE), (out / CURVE).open(mode, encoding="utf-8") as file:
        # What a run that was stopped has written after its checkpoint, half a line perhaps, comes again.
        file.writelines(json.dumps(_finite(point)) + "\n" for point in curve)

        def saved(point: Point) -> None:
            curve.append(point)
            file.write(json.dumps(_finite(point)) + "\n")
            file.flush()
            report(point)

        train(spec, model, data, held_out, config, saved, every, checkpoint)
    record = {
        "kind": name,
        "target": [names[0], fingerprint(models.target)],
        "draft": None if before is None else [names[1], before],
        "parameters": sum(weights.numel() for weights in model.parameters()),
        "batch": data.batch,
        **asdict(config),
        "seconds": curve[-1].seconds,
        "last": _finite(curve[-1]),
        **({} if earlier is None else {"earlier": earlier}),
        **(described or {}),
    }
    save(model, models.tokenizer if models.draft is None else models.draft_tokenizer, out, record)
    checkpoint.unlink()
    return record


def _finite(point: Point) -> dict[str, Any]:
    """A point as JSON has it: no loss is known before the first step."""
    return asdict(point) | {"loss": point.loss if math.isfinite(point.loss) else None}

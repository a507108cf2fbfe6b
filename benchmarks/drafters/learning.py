"""Texts, trainings and their paces: what a process does of a run, each on what the folder has already."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch
from transformers.utils import logging

from benchmarks.drafters.plan import PLAIN, TARGET, Learner, Plan
from benchmarks.drafters.pretrained import pretrain
from benchmarks.reporting import Record
from otspec.decode.models.loading import SHIPPED, Models, load_models
from otspec.decode.training import Course, own_texts, train_into
from otspec.decode.training.folder import RECORD
from otspec.laws import IntArray


def as_worker() -> None:
    """Set up a process: one thread for what is done on the host, and half of the digits where that is fast."""
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    logging.disable_progress_bar()


def write(plan: Plan, seed: int, out: Path, device: str) -> IntArray:
    """A part of the texts, as far as it is not there yet; a GPU writes in the precision that weights have on disk."""
    models = load_models(SHIPPED, None, device)
    count = -(-(plan.texts + plan.held_out) // plan.seeds)
    path = out / f"texts-{seed}.safetensors"
    found = own_texts(models.target, [[models.tokenizer.bos_token_id]], count, plan.length, seed=seed, path=path)
    torch.cuda.empty_cache()  # a cache that grew token by token is left in pieces, which other processes need
    return found


def texts(plan: Plan, out: Path, device: str) -> tuple[IntArray, IntArray]:
    """To learn from, and held out."""
    whole = np.concatenate([write(plan, seed, out, device) for seed in range(plan.seeds)])
    return whole[plan.held_out :], whole[: plan.held_out]


def begin(start: str, plan: Plan, out: Path, device: str, corpus: Path | None) -> None:
    """Pretrain a draft model, unless it is there."""
    folder = place(start, out)
    if folder.exists():
        return
    models = load_models(SHIPPED, None, device, "float32")
    pretrain(folder, PLAIN[start], models.tokenizer, corpus, plan.pretraining, models.target.device)


def place(start: str, out: Path) -> Path:
    """Where a draft model is that has seen text alone."""
    return out / f"{start}-pretrained"


def models_of(learner: Learner, out: Path, device: str) -> Models:
    """The target, and what a training begins with."""
    starts = {SHIPPED: SHIPPED, TARGET: None}
    draft = starts[learner.start] if learner.start in starts else str(place(learner.start, out))
    return load_models(SHIPPED, draft, device, "float32")


def learn(learner: Learner, seed: int, plan: Plan, out: Path, device: str) -> None:
    """Train, unless that is done."""
    folder = learner.folder(out, seed)
    if not learner.learns or (folder / RECORD).exists():
        return
    models = models_of(learner, out, device)
    train_into(
        folder,
        learner.kind,
        models,
        (SHIPPED, learner.start),
        *texts(plan, out, device),
        Course(plan.steps, learner.rate or plan.rate, loss=learner.loss, seed=seed),
        batch=plan.batch,
        every=plan.every,
        memory=0 if models.target.device.type == "cuda" else 4 << 30,  # there the target is faster than the bus
    )


def pace(learner: Learner, plan: Plan, out: Path, device: str, folder: Path, steps: int = 60) -> Record:
    """Seconds of a step where nothing else runs, after the first half of the steps; `folder` is for what is left."""
    models = models_of(learner, out, device)
    learnt, aside = texts(plan, out, device)
    marks: list[float] = []
    train_into(
        folder / learner.name,
        learner.kind,
        models,
        (SHIPPED, learner.start),
        learnt[: plan.batch * steps],
        aside[: plan.batch],
        Course(steps, loss=learner.loss),
        batch=plan.batch,
        every=steps // 2,
        report=lambda point: marks.append(time.perf_counter()),
        memory=0,
    )
    share = 2 / steps  # what measuring the last point takes is in it, and small
    return {"pace": learner.name, "kind": learner.kind, "seconds": (marks[-1] - marks[-2]) * share, "batch": plan.batch}

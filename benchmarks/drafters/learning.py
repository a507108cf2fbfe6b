"""Texts, trainings and their paces: what a process does of a run, each on what the folder has already."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from transformers.utils import logging

from benchmarks.drafters.plan import PLAIN, TARGET, Learner, Plan
from benchmarks.drafters.pretrained import pretrain
from benchmarks.shipped_pair.corpus import read_corpus
from benchmarks.shipped_pair.recipe import Recipe, tokens_of
from otspec.decode.drafters.hidden_states import last_layer, three_layers
from otspec.decode.pair.loading import SHIPPED, Models, load_models
from otspec.decode.training import TeacherData, TrainingConfig, own_texts, train_into
from otspec.decode.training.folder import RECORD
from otspec.laws import IntArray


def as_worker() -> None:
    """Set up a process: one thread for what is done on the host, and half of the digits where that is fast."""
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    logging.disable_progress_bar()


def texts(plan: Plan, out: Path, device: str) -> tuple[IntArray, IntArray]:
    """To learn from, and held out; written as far as they are not there yet, in the precision that a GPU is given."""
    models = load_models(SHIPPED, None, device)
    count, path = plan.texts + plan.held_out, out / "texts.safetensors"
    begin = [[models.tokenizer.bos_token_id]]
    whole = own_texts(models.target, begin, count, plan.length, batch=plan.at_once, path=path)
    torch.cuda.empty_cache()  # a cache that grew token by token is left in pieces, which other processes need
    return whole[plan.held_out :], whole[: plan.held_out]


@cache
def teacher_data(plan: Plan, out: Path, device: str, layers: tuple[int, ...]) -> tuple[TeacherData, TeacherData]:
    """To learn from, and held out: the target's laws there are kept from one training of a process to the next."""
    target = load_models(SHIPPED, None, device, "float32").target
    learnt, aside = (TeacherData(target, some, layers, plan.batch) for some in texts(plan, out, device))
    return learnt, aside


def begin(start: str, plan: Plan, out: Path, device: str, corpus: Path | None) -> None:
    """Pretrain a draft model, unless it is there."""
    folder = place(start, out)
    if folder.exists():
        return
    models = load_models(SHIPPED, None, device, "float32")
    files = [tokens_of(models.tokenizer, source.text) for source in read_corpus(corpus) if not source.held_out]
    recipe = Recipe(steps=plan.pretraining, polish=0, own=0)
    pretrain(folder, PLAIN[start], models.tokenizer, files, recipe, models.target.device)


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
    learnt, aside = teacher_data(plan, out, device, _layers(learner, models))
    config = TrainingConfig(plan.steps, plan.rate, loss=learner.loss, seed=seed)
    names = (SHIPPED, learner.start)
    train_into(folder, learner.kind, models, names, learnt.again(seed), aside, config, every=plan.every)


def _layers(learner: Learner, models: Models) -> tuple[int, ...]:
    """Of the target; the same for all that begin with a draft model, whether or not they read them."""
    return last_layer(models.target) if models.draft is None else three_layers(models.target)

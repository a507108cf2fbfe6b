"""Whether a drafter keeps on other kinds of text what it gains at home: Tables 1 and 3 of [berdozsteering] by task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from benchmarks.drafters.acceptance import decoded, leave, models_with
from benchmarks.drafters.plan import WAYS, Learner, Plan
from benchmarks.drafters.tables import spread
from benchmarks.reporting import Record
from otspec.decode import shipped
from otspec.decode.pair.loading import Models
from otspec.reporting.means import welch
from otspec.reporting.tables import TextTable

RECORDS = "elsewhere.jsonl"
HOME, ELSEWHERE = "at home", "elsewhere, mean"
"""Held-out text of the kind that was learnt from; the mean over all others."""


class Tasks(NamedTuple):
    """Files of JSON lines as Spec-Bench has them, and which of their categories are wanted; none named, all."""

    files: tuple[Path, ...]
    categories: tuple[str, ...] = ()


def prompts(tasks: Tasks, plan: Plan, models: Models) -> dict[str, torch.Tensor]:
    """Windows of `plan.prompt` tokens at home and of every category.

    Prompts of a category come one after the other, all turns of each; every window is begun by bos.  Shape (at most
    `plan.prompts`, `plan.prompt`) each.
    """
    tokenizer, texts = models.tokenizer, dict[str, list[str]]()
    for file in tasks.files:
        for record in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            if tasks.categories and record["category"] not in tasks.categories:
                continue
            texts.setdefault(record["category"], []).append("\n\n".join(record["turns"]))
    found = {HOME: shipped.held_out(plan.prompt)[: plan.prompts]}
    for category, some in texts.items():
        tokens = tokenizer("\n\n".join(some), add_special_tokens=False).input_ids
        size = plan.prompt - 1
        count = min(len(tokens) // size, plan.prompts)
        found[category] = [[tokenizer.bos_token_id, *tokens[at * size : (at + 1) * size]] for at in range(count)]
    return {name: torch.tensor(rows, device=models.target.device) for name, rows in found.items() if rows}


def measure(learner: Learner, seed: int, plan: Plan, out: Path, tasks: Tasks, device: str) -> None:
    """Decode all kinds of text with one path at temperature 1, and leave a record of each, unless that is done."""
    folder = out / f"{learner.name}-{seed}"
    folder.mkdir(exist_ok=True)
    if (folder / RECORDS).exists():
        return
    models = models_with(learner, seed, out, device)
    found: list[Record] = []
    for text, rows in prompts(tasks, plan, models).items():
        metrics = decoded(WAYS[0], models, rows, plan.new, seed).metrics
        about = {"name": learner.name, "start": learner.start, "seed": seed, "text": text, "prompts": len(rows)}
        found.append({**about, "tokens": metrics.tokens, "calls": metrics.sequence_steps})
    leave(folder / RECORDS, found)


def gathered(plan: Plan, out: Path) -> list[Record]:
    """The records of a run."""
    files = [out / f"{learner.name}-{seed}" / RECORDS for learner, seed in plan.jobs()]
    return [json.loads(line) for file in files if file.exists() for line in file.read_text().splitlines()]


def by_text(records: Sequence[Record], name: str) -> dict[str, list[float]]:
    """Tokens a call of a drafter on every kind of text and in the mean over those elsewhere, one a seed each."""
    found: dict[str, list[float]] = {}
    for one in sorted((one for one in records if one["name"] == name), key=lambda one: int(one["seed"])):
        found.setdefault(one["text"], []).append(one["tokens"] / one["calls"])
    others = [taus for text, taus in found.items() if text != HOME]
    return found | ({ELSEWHERE: np.mean(others, axis=0).tolist()} if others else {})


def table(plan: Plan, records: Sequence[Record]) -> TextTable:
    """Kinds of text down, learners across; every later learner beside each before it by Welch's test over seeds."""
    names = [one.name for one in plan.learners if by_text(records, one.name)]
    found = {name: by_text(records, name) for name in names}
    pairs = [(later, earlier) for at, later in enumerate(names) for earlier in names[:at]]
    counts = {one["text"]: one["prompts"] for one in records}
    rows = [
        (
            f"{text} ({counts[text]})" if text in counts else text,
            *(spread(found[name].get(text, []), 3) for name in names),
            *(" ".join(welch(found[later].get(text, []), found[earlier].get(text, []))) for later, earlier in pairs),
        )
        for text in (HOME, ELSEWHERE, *(text for text in counts if text != HOME))
    ]
    header = ("text (prompts)", *names, *(f"{later} over {earlier}: t, p" for later, earlier in pairs))
    note = (
        f"Tokens a call, one path, L = {WAYS[0].depth}, T = 1, {plan.new} new tokens of each prompt; ± is the standard "
        f"deviation over {plan.seeds} seeds, of training and decoding."
    )
    return TextTable("Home and elsewhere", header, rows, note)

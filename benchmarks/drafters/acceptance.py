"""What a drafter gives: tokens a call on the held-out prompts, and acceptance by position and by offset."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaForCausalLM

from benchmarks.drafters.learning import teacher_data
from benchmarks.drafters.plan import FREE, PLAIN, WAYS, Learner, Plan, Way
from benchmarks.reporting import Record
from otspec.decode import shipped
from otspec.decode.drafters.hidden_states import shifted, three_layers
from otspec.decode.drafters.sd2.training import LONGEST
from otspec.decode.methods.catalogue import METHODS, decoder
from otspec.decode.pair.loading import SHIPPED, Models, batch_of, load_models
from otspec.decode.training import KINDS, loop
from otspec.decode.training.folder import RECORD

RECORDS = "records.jsonl"


def ready(learner: Learner, seed: int, out: Path) -> bool:
    """Whether it can be decoded with."""
    return (learner.start == SHIPPED and not learner.learns) or done(learner.folder(out, seed))


def measure(learner: Learner, seed: int, plan: Plan, out: Path, device: str) -> None:
    """Decode with it in all ways and leave the records in its folder, unless that is done."""
    folder = out / f"{learner.name}-{seed}"
    folder.mkdir(exist_ok=True)
    if (folder / RECORDS).exists():
        return
    models = models_with(learner, seed, out, device)
    assert models.draft is not None
    about = learner._asdict() | {"name": learner.name, "seed": seed}
    about["parameters"] = sum(weights.numel() for weights in models.draft.parameters())
    records = [about | one for one in _figures(learner, models, seed, plan, out, device)]
    leave(folder / RECORDS, records)


def models_with(learner: Learner, seed: int, out: Path, device: str) -> Models:
    """The target, and a draft model that is done."""
    name = SHIPPED if learner.start == SHIPPED and not learner.learns else str(learner.folder(out, seed))
    return load_models(SHIPPED, name, device, "float32")


def measure_free(method: str, plan: Plan, out: Path, device: str) -> None:
    """The same for a method without a draft model, of the first seed."""
    path, seed = out / f"{method}.jsonl", 0
    if path.exists():
        return
    models = load_models(SHIPPED, None, device, "float32")
    settings = {"depth": WAYS[0].depth} if "depth" in METHODS[method].takes else {}
    prompts = _prompts(plan, models)
    found = []
    for temperature in (1.0, 0.0):
        metrics = _decoded(method, settings, models, prompts, plan.new, temperature, seed).metrics
        way = Way("", settings.get("depth", 0) and 1, settings.get("depth", 0), temperature)
        found.append({"name": method, "seed": seed, "parameters": 0, **way._asdict(), **metrics.record()})
    leave(path, found)


def _figures(
    learner: Learner, models: Models, seed: int, plan: Plan, out: Path, device: str
) -> Iterator[dict[str, Any]]:
    prompts = _prompts(plan, models)
    first = seed == 0 and learner not in plan.ablations  # trees, and figures by position, are of the first seed
    for way in WAYS if first else WAYS[:2]:
        metrics = decoded(way, models, prompts, plan.new, seed).metrics
        yield {**way._asdict(), **metrics.record()}
    at = plan.prompt
    for new in plan.windows if first else ():
        found = decoded(WAYS[0], models, prompts, new, seed)
        yield {**WAYS[0]._asdict(), "window": [at, at + new], **found.metrics.record()}
        prompts, at = found.sequences, at + new
    if type(models.draft) is LlamaForCausalLM:
        yield {"held_out": held_out(models, plan, out, device)}
    if learner.kind.startswith("sd2"):
        yield {"by_offset": by_offset(models, plan, out, device)}


def decoded(way: Way, models: Models, prompts: torch.Tensor, new: int, seed: int) -> Any:
    """All prompts gone on with in one way."""
    settings = {"paths": way.paths, "depth": way.depth, "solver": way.rule}
    return _decoded("multi-draft", settings, models, prompts, new, way.temperature, seed)


def _decoded(
    method: str, settings: dict[str, Any], models: Models, prompts: torch.Tensor, new: int, heat: float, seed: int
) -> Any:
    """All prompts at once; nothing ends a text but its length."""
    decode = decoder(method, models, settings)
    inputs = {"input_ids": prompts, "attention_mask": torch.ones_like(prompts)}
    return decode(**inputs, temperature=heat, seed=seed, max_new_tokens=new, eos_token_id=None)


def _prompts(plan: Plan, models: Models) -> torch.Tensor:
    return batch_of(shipped.held_out(plan.prompt)[: plan.prompts], models.target.device)["input_ids"]


def held_out(models: Models, plan: Plan, out: Path, device: str) -> float:
    """Acceptance of one draft that reads nothing of the target, on the same held-out texts for all."""
    assert models.draft is not None
    aside = teacher_data(plan, out, device, three_layers(models.target))[1]
    return loop.measure(KINDS["distilled"], models.draft, aside)[0]


@torch.no_grad()
def by_offset(models: Models, plan: Plan, out: Path, device: str) -> list[float]:
    """Acceptance of one draft that is steered by what the target thought 1, ..., 8 tokens before, on held-out texts."""
    model: Any = models.draft
    aside = teacher_data(plan, out, device, three_layers(models.target))[1]
    sums = torch.zeros(LONGEST, dtype=torch.float64)
    count = 0
    for rows in torch.arange(len(aside.texts)).split(plan.batch):
        batch = aside.batch_of(rows.tolist())
        p = batch.log_law.exp()
        for offset in range(1, LONGEST + 1):
            offsets = torch.full_like(batch.tokens[:, :-1], offset)
            shifts = model.shifts(shifted(batch.features, offsets))
            q = model(input_ids=batch.tokens[:, :-1], shifts=shifts, use_cache=False).logits.softmax(-1)
            sums[offset - 1] += torch.minimum(p, q).sum(-1).sum().item()
        count += p.shape[0] * p.shape[1]
    found: list[float] = (sums / count).tolist()
    return found


def leave(path: Path, records: list[Record]) -> None:
    """All at once: a file that is there is whole."""
    part = path.with_name(path.name + ".part")
    part.write_text("".join(json.dumps(record) + "\n" for record in records))
    part.replace(path)


def gathered(out: Path, plan: Plan) -> list[Record]:
    """The records of a run."""
    files = [out / f"{learner.name}-{seed}" / RECORDS for learner, seed in plan.jobs()]
    files += [out / f"{method}.jsonl" for method in FREE]
    return [json.loads(line) for file in files if file.exists() for line in file.read_text().splitlines()]


def done(folder: Path) -> bool:
    """Whether a draft model is whole."""
    return (folder / RECORD).exists()


def beginnings(plan: Plan) -> list[str]:
    """The draft models that have to be pretrained."""
    return [start for start in PLAIN if any(learner.start == start for learner, _ in plan.jobs())]

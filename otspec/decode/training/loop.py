"""One loop for all draft models that learn from a target."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_
from transformers import PreTrainedModel

from otspec.decode.distillation.losses import Prediction, loss_named, tvd
from otspec.decode.distillation.on_policy import on_policy_batch
from otspec.decode.distillation.spec import DraftModelSpec
from otspec.decode.distillation.teacher import SEEDS, TeacherBatch, TeacherData
from otspec.decode.drafters.published.checkpoint import reading
from otspec.decode.models.fingerprint import fingerprint
from otspec.decode.pair.loading import save_model
from otspec.decode.training.optimiser import Optimiser
from otspec.errors import DataError
from otspec.writing import write_text

FORWARD = 1 / 3
"""Share of a pass with gradients that one without them takes."""
DAMAGED = "a checkpoint (remove it to start anew)"


@dataclass(frozen=True)
class TrainingConfig:
    """How long and how fast a draft model learns: warm-up and cosine as in [berdozsteering, A.3]."""

    steps: int = 600
    rate: float = 1e-3
    """The largest learning rate; it begins and ends at a tenth.  2e-5 to 5e-5 for models of billions of parameters."""
    warm_up: float = 0.1
    """The share of the steps in which the rate rises."""
    clip: float = 0.5
    """The largest norm of the gradient; a larger one is scaled down."""
    loss: str | None = None
    """As `otspec.decode.distillation.losses.loss_named` takes it; None: as the kind has it."""
    seed: int = 0
    ahead: int | None = None
    """How many drafts in a row it learns; None: as the kind has it."""
    optimiser: str | None = None
    """One of `otspec.decode.training.optimiser.OPTIMISERS`; None: as the kind has it."""
    on_policy: float = 0.0
    """Share of the steps that learn from text of the draft model's own, as it is by then [zhou2024distillspec]."""

    def of(self, spec: DraftModelSpec) -> TrainingConfig:
        """The same, with the kind's defaults where nothing else is set."""
        return replace(
            self,
            loss=self.loss or spec.loss,
            ahead=self.ahead or spec.ahead,
            optimiser=self.optimiser or spec.optimiser,
        )

    def rate_at(self, step: int) -> float:
        """The learning rate of a step."""
        rising = max(round(self.warm_up * self.steps), 1)
        if step < rising:
            height = step / rising
        else:
            height = 0.5 + 0.5 * math.cos(math.pi * (step - rising) / max(self.steps - rising, 1))
        return self.rate * (0.1 + 0.9 * height)


@dataclass(frozen=True)
class Point:
    """A point of the curve."""

    step: int
    loss: float
    """Mean over the steps since the last point; NaN before the first."""
    acceptance: float
    """Of one draft at temperature 1 on texts that are not trained on: 1 less `tvd`.  The mean over drafts in a row."""
    by_draft: tuple[float, ...]
    """The same for each of these, where those before it were accepted."""
    seconds: float = 0.0
    """Since the training began, of all processes that have gone on with it."""

    @classmethod
    def of(cls, step: int, loss: float, by_draft: Sequence[float], seconds: float) -> Point:
        """A point from what was measured.

        Raises
        ------
        DataError
            If the loss, or the acceptance, is not finite.
        """
        for what, value in (("loss", loss if step else 0.0), *(("acceptance", one) for one in by_draft)):
            if not math.isfinite(value):
                raise DataError(
                    f"the {what} is {value} at step {step}: the target's outputs are beyond its precision, or the rate "
                    "is too high; take --dtype float32 or bfloat16 where it was float16, or a lower --rate"
                )
        return cls(step, loss, sum(by_draft) / len(by_draft), tuple(by_draft), round(seconds, 1))


@dataclass(frozen=True)
class Forecast:
    """What a training will take on this machine, by one batch that was thrown away."""

    weights: int
    """That learn."""
    tokens: int
    """That are learnt from, each as often as it comes."""
    seconds: float

    @classmethod
    def of(
        cls,
        spec: DraftModelSpec,
        model: PreTrainedModel,
        data: TeacherData,
        held_out: TeacherData,
        config: TrainingConfig,
        every: int,
    ) -> Forecast:
        """Call the target once, and learn once without a step; the parameters are those of `train`."""
        config = config.of(spec)
        rows = next(data.order())
        calling = -time.perf_counter()
        batch = data.batch_of(rows)
        calling += time.perf_counter()
        writing = -time.perf_counter()
        if config.on_policy:
            on_policy_batch(model, data, rows, np.random.default_rng(config.seed))
        writing += time.perf_counter()
        learning = -time.perf_counter()
        model.train()
        with _narrow(model, data.target):
            answers = spec.answers(model, batch, _generator(config, 0), config.ahead or 1)
        loss_of(spec, config, answers, batch).backward()
        learning += time.perf_counter()
        model.zero_grad()
        batches = -(-len(held_out.texts) // held_out.batch)
        points = 1 + -(-config.steps // every)
        batches_in_all = data.batches_in(config.steps) + (batches if held_out.is_cached else batches * points)
        return cls(
            sum(weights.numel() for weights in spec.learning(model)),
            config.steps * batch.tokens.numel(),
            batches_in_all * calling
            + config.on_policy * config.steps * writing
            + (config.steps + points * batches * FORWARD) * learning,
        )


def train(
    spec: DraftModelSpec,
    model: PreTrainedModel,
    data: TeacherData,
    held_out: TeacherData,
    config: TrainingConfig,
    report: Callable[[Point], None] = lambda point: None,
    every: int = 50,
    checkpoint: Path | None = None,
) -> PreTrainedModel:
    """Train a draft model, which `spec.begin` has made, in place.

    Parameters
    ----------
    spec : DraftModelSpec
    model : PreTrainedModel
    data, held_out : TeacherData
        What it learns from, and what the curve is measured on, all of it.
    config : TrainingConfig
    report : callable
        Gets a point of the curve before the first step, every so many steps, and at the end.
    every : int
    checkpoint : Path, optional
        Written at every point; if it is there, the run goes on from it.

    Raises
    ------
    DataError
        If the checkpoint belongs to another config, to other texts or batches, or began with another model; or a loss
        is not finite.
    ProblemError
        If the kind cannot be trained by the config's loss, or on text of its own.
    """
    config = config.of(spec)
    spec.check_loss(str(config.loss))
    spec.check_on_policy(config.on_policy, data.target)
    learning = spec.learning(model)
    optimiser = Optimiser(str(config.optimiser), learning, config.rate)
    first, curve = 0, list[Point]()
    of = {"config": asdict(config), "batch": data.batch, "texts": [data.digest, held_out.digest]}
    of |= {"begun": fingerprint(model)}
    started = time.perf_counter()

    def reach(step: int, loss: float) -> None:
        model.eval()
        found = Point.of(step, loss, measure(spec, model, held_out), time.perf_counter() - started)
        curve.append(found)
        report(found)

    if checkpoint is not None and checkpoint.exists():
        with reading(checkpoint, DAMAGED):
            state = _gone_on_with(checkpoint, of, model.device)
            model.load_state_dict(state["model"])
            optimiser.load_state_dict(state["optimiser"])
            curve += curve_of(state)
            first = curve[-1].step
        started -= curve[-1].seconds
    else:
        reach(0, math.nan)
    losses: list[torch.Tensor] = []
    for step, rows in islice(enumerate(data.order()), first, config.steps):
        rng = np.random.default_rng((config.seed, step))
        own = rng.random() < config.on_policy
        batch = on_policy_batch(model, data, rows, rng) if own else data.batch_of(rows)
        model.train()
        with _narrow(model, data.target), torch.random.fork_rng():
            torch.manual_seed(_generator(config, step).initial_seed())  # for dropout
            answers = spec.answers(model, batch, _generator(config, step), config.ahead or 1)
        loss = loss_of(spec, config, answers, batch)
        loss.backward()
        clip_grad_norm_(learning, config.clip)
        optimiser.step(config.rate_at(step))
        losses.append(loss.detach())  # nobody waits for it
        if (step + 1) % every == 0 or step + 1 == config.steps:
            reach(step + 1, torch.stack(losses).mean().item())
            losses = []
            if checkpoint is not None:
                state = {"model": model.state_dict(), "optimiser": optimiser.state_dict()}
                _leave(checkpoint, {**of, **state, "curve": [asdict(one) for one in curve]})
    return model.eval()


def curve_of(state: Mapping[str, Any]) -> list[Point]:
    """The points that a checkpoint holds."""
    return [Point(**one) for one in state.get("curve", ())]


def _leave(checkpoint: Path, state: Mapping[str, Any]) -> None:
    part = checkpoint.with_name(checkpoint.name + ".part")
    try:
        torch.save(dict(state), part)
    except RuntimeError as error:  # all that torch reports of a full disk is a place in the file
        raise DataError(f"{part} cannot be written, the disk may be full: {error}") from error
    part.replace(checkpoint)


def _gone_on_with(checkpoint: Path, of: Mapping[str, Any], device: torch.device) -> dict[str, Any]:
    """What a checkpoint holds, if it is of this training.

    Raises
    ------
    DataError
        If it is of another, or of another version of this package.
    """
    state: dict[str, Any] = torch.load(checkpoint, map_location=device)
    if missing := {*of, "curve", "model", "optimiser"} - state.keys():
        raise DataError(f"{checkpoint} has no {min(missing)!r}: another version wrote it; remove it to start anew")
    had, now = ({**one["config"], "batch": one["batch"]} for one in (state, of))
    if other := [f"{name} {had.get(name)}, not {value}" for name, value in now.items() if had.get(name) != value]:
        raise DataError(f"{checkpoint} is of a training with {'; '.join(other)}; remove it to start anew")
    if state["texts"] != of["texts"]:
        raise DataError(f"{checkpoint} has learnt from other texts than these; remove it to start anew")
    if state["begun"] != of["begun"]:
        raise DataError(f"{checkpoint} began with another draft model than this one; remove it to start anew")
    return state


def loss_of(
    spec: DraftModelSpec, config: TrainingConfig, answers: Sequence[Prediction], batch: TeacherBatch
) -> torch.Tensor:
    """The mean over drafts in a row, weighted as the kind weighs them."""
    weights = [spec.decay**number for number in range(len(answers))]
    loss = loss_named(config.loss or spec.loss)
    each = [weight * loss(batch.wanted(one.logits.shape[1]), one) for weight, one in zip(weights, answers, strict=True)]
    return torch.stack(each).sum() / sum(weights)


@torch.no_grad()
def measure(spec: DraftModelSpec, model: PreTrainedModel, held_out: TeacherData) -> list[float]:
    """Acceptance of each of several drafts in a row, of one draft if the kind learns one, over all held-out texts."""
    found = []
    for rows in torch.arange(len(held_out.texts)).split(held_out.batch):
        batch = held_out.batch_of(rows.tolist())
        with _narrow(model, held_out.target):
            answers = spec.answers(model, batch, torch.Generator().manual_seed(int(rows[0])), spec.measured)
        found += [[1 - tvd(batch.wanted(one.logits.shape[1]), one).item() for one in answers]] * len(rows)
    return [sum(each) / len(each) for each in zip(*found, strict=True)]


def _narrow(model: PreTrainedModel, target: PreTrainedModel) -> torch.autocast:
    """Products in the target's precision where that is bfloat16, while the weights that learn stay in float32."""
    wanted = target.dtype == torch.bfloat16 and model.dtype == torch.float32
    return torch.autocast(model.device.type, torch.bfloat16, enabled=wanted)


def save(model: PreTrainedModel, tokenizer: Any, out: Path, record: dict[str, object]) -> None:
    """Write the model with its tokenizer as `from_pretrained` wants them, and its record into training.json."""
    save_model(model, tokenizer, out)
    write_text(out / "training.json", json.dumps(record, indent=2) + "\n")


def _generator(config: TrainingConfig, step: int) -> torch.Generator:
    """Random numbers of one step, whatever steps came before it in this process."""
    return torch.Generator().manual_seed((config.seed * 1_000_003 + step) % SEEDS)

"""`otspec train`: a draft model that learns from its target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from otspec.cli import options
from otspec.cli.conflicts import ALL_TOKENS, CONFLICTS, NO_QUESTIONS, OF_TARGET, ONE_AHEAD, TEXT_FILE
from otspec.cli.groups import with_option_groups
from otspec.cli.names import TRAINED
from otspec.cli.options import ARGUMENT
from otspec.cli.prompts import Prompt, read_prompts
from otspec.cli.sampling import PlaceOptions, draft_names
from otspec.cli.texts import MAGPIE, WritingOptions, write_texts
from otspec.errors import DataError, ProblemError
from otspec.reporting.console import LONGEST, MOST, console, progress_as_ours, progress_bar
from otspec.settings import Count, Probability, Seed, refuse

if TYPE_CHECKING:
    from otspec.decode.pair.loading import Models
    from otspec.decode.training import Forecast, Point, TrainingConfig
    from otspec.laws import IntArray

HELD_OUT = 64
"""Texts that the curve is measured on."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """What `otspec train` takes."""

    kind: Annotated[str, ARGUMENT]
    """The kind: {TRAINED}."""
    out: Path
    """The folder for the draft model, to be passed as --draft; the same command again goes on with it."""
    target: str = "shipped"
    """The target model, whose text is written: {MODEL}"""
    draft: str | None = None
    """The draft model that learns, named in the same way; eagle1, eagle3, shared, parallel, medusa and mlp are made
    of the target; by default shipped."""
    from_: Path | None = None
    """A folder of this command's, whose draft model learns on: from other texts, by another loss, or all of it
    after sd2-frozen."""
    prompts: Path | None = None
    """The prompts that the target goes on with, to write the texts that are learnt from. {FORMAT} By default the
    token that begins a text."""
    writing: WritingOptions
    texts: str = "1024"
    """The texts that are learnt from: how many the target writes; or magpie, or magpie:N: N of them, whose questions
    it writes too; or a file that `otspec texts` wrote."""
    steps: Count = 600
    """How many steps of training are done."""
    batch: Count = 16
    """How many texts a step learns from."""
    rate: float = 0.001
    """The learning rate; take 2e-5 to 5e-5 for billions of parameters."""
    loss: str | None = None
    """The loss: {LOSSES}, or alpha:n, the chance that n i.i.d. drafts are all refused, or topk:K, the cross-entropy
    of the target's K likeliest tokens, or a sum such as kl+alpha:4 or kl+0.5*topk:10; eagle, of hidden states too,
    is for eagle1; by default kl, or eagle for eagle1."""
    on_policy: Probability = 0.0
    """The share of steps that learn from text that the draft model writes itself, as it is by then; for
    distilled."""
    ahead: Count | None = None
    """How many drafts in a row are learnt: heads of medusa and mlp, depths of parallel, passes of eagle, eagle1,
    eagle3 and shared over their own outputs; by default 5 for parallel, 4 for medusa, 1 for eagle1, else 3."""
    draft_tokens: Count | None = None
    """How many tokens are drafted, the most frequent ones of the texts, for eagle3, shared and parallel; by default
    all."""
    seed: Seed = 0
    """The seed of the texts and of training."""
    every: Count = 50
    """How many steps lie between two points of the curve."""
    place: PlaceOptions

    @property
    def passed(self) -> dict[str, Any]:
        """The options that not every kind takes."""
        names = ("from_", "draft", "draft_tokens", "ahead")
        found = {f"--{name.strip('_').replace('_', '-')}": getattr(self, name) for name in names}
        return {**found, "--ask-temperature": self.writing.ask_temperature}


@with_option_groups
@options.holding
def train(request: TrainOptions) -> None:
    """Train a draft model on text that its target writes at temperature 1, with the target's laws as labels.

    The command writes the model, its curve and what is known of it into the folder.  A run that is killed goes on where
    it stopped.
    """
    if request.kind not in TRAINED:
        raise ProblemError(f"no kind {request.kind!r}; known: {', '.join(TRAINED)}")
    if not (math.isfinite(request.rate) and request.rate > 0):
        raise ProblemError(f"the learning rate is {request.rate}; pass a number above 0")
    refuse(CONFLICTS, {**request.passed, NO_QUESTIONS: request.texts.partition(":")[0] != MAGPIE})
    prompts = None if request.prompts is None else read_prompts(request.prompts)
    if (request.out / "training.json").exists():
        raise DataError(f"{request.out} holds a trained draft model already; remove it, or give another folder")
    progress_as_ours()
    from otspec.decode.distillation.texts import most_frequent
    from otspec.decode.models.context import vocabulary
    from otspec.decode.training import TeacherData, train_into

    config, earlier = _config(request)
    models, learner, layers = _models(request, earlier)
    written = _texts(request, models, prompts)
    if models.draft is not None:  # as in decoding, what it has no row for it reads as its last token
        written = written.clip(max=vocabulary(models.draft) - 1)
    count = len(written) - HELD_OUT
    draft_tokens = getattr(models.draft, "draft_tokens", None)  # of one that goes on
    if request.draft_tokens is not None:
        draft_tokens = most_frequent(written[:count], request.draft_tokens, models.target)
    source = request.texts if request.prompts is None else request.prompts.name
    at = {} if request.writing.ask_temperature is None else {"ask_temperature": request.writing.ask_temperature}
    with progress_bar() as bar:
        task = bar.add_task("training", total=request.steps)

        def report(point: Point) -> None:
            bar.update(task, completed=point.step)
            each = ", ".join(f"{one:.4f}" for one in point.by_draft)
            several = f" ({each})" if len(point.by_draft) > 1 else ""
            lost = "" if math.isnan(point.loss) else f"loss {point.loss:.4f}, "  # none before the first step
            console.print(f"step {point.step}: {lost}acceptance {point.acceptance:.4f}{several}", highlight=False)

        train_into(
            request.out,
            request.kind,
            models,
            (request.target, learner),
            TeacherData(models.target, written[:count], layers, request.batch, request.seed, draft_tokens=draft_tokens),
            TeacherData(models.target, written[count:], layers, request.batch, draft_tokens=draft_tokens),
            config,
            every=request.every,
            earlier=earlier,
            described={"texts": {"count": count, "length": written.shape[1], "from": source, **at}},
            report=report,
            forecast=_show,
        )
    way = f"otspec decode --target {request.target} --draft {request.out}"
    console.print(f"Wrote {request.out}: {way}", highlight=False, soft_wrap=True)


def _config(request: TrainOptions) -> tuple[TrainingConfig, Mapping[str, Any] | None]:
    """How the training goes, and the record of the one that it goes on from."""
    from otspec.decode.training import KINDS, TrainingConfig, read_record

    chosen = KINDS[request.kind]
    facts = {OF_TARGET: chosen.of_target, ONE_AHEAD: chosen.ahead is None, ALL_TOKENS: not chosen.shares}
    refuse(CONFLICTS, {**request.passed, **facts}, dict.fromkeys(facts, f"the kind {request.kind}"))
    earlier = None if request.from_ is None else read_record(request.from_, request.kind)
    before = None if earlier is None else earlier["ahead"]
    ahead = request.ahead or before or chosen.ahead
    if chosen.built and before not in (None, ahead):
        raise ProblemError(f"{request.from_} is made for {before} drafts in a row, not {ahead}; leave out --ahead")
    loss, seed = request.loss or chosen.loss, request.seed
    config = TrainingConfig(request.steps, request.rate, loss=loss, seed=seed, ahead=ahead, on_policy=request.on_policy)
    chosen.check_loss(str(config.loss))
    return config, earlier


def _models(request: TrainOptions, earlier: Mapping[str, Any] | None) -> tuple[Models, str | None, Sequence[int]]:
    """The target and the draft model that learns, its name, and the target's layers whose features it takes."""
    from otspec.decode.pair.loading import load_models
    from otspec.decode.training import KINDS, with_earlier

    chosen = KINDS[request.kind]
    named = next(iter(draft_names(request.target, None if request.draft is None else [request.draft])), None)
    if named is None and not chosen.of_target and request.from_ is None:
        raise ProblemError(
            f"{request.kind} is made of a draft model, and none is known for {request.target}; pass --draft"
        )
    learner = None if chosen.of_target or request.from_ is not None else named
    dtype = request.place.dtype or "float32"  # half precision loses what a step changes
    models = load_models(request.target, learner, request.place.device, dtype, packed=chosen.shares)
    if request.from_ is not None and earlier is not None:
        learner, models = str(request.from_), with_earlier(models, request.from_, earlier, dtype)
    options.check_one_tokenizer(models, request.target, learner)
    chosen.check_on_policy(request.on_policy, models.target)
    return models, learner, chosen.layers(models.target)


def _show(forecast: Forecast) -> None:
    """Print what the training will take."""
    minutes = forecast.seconds / 60
    console.print(
        f"{forecast.weights:,} weights learn from {forecast.tokens:,} tokens; that takes some "
        f"{f'{minutes:.0f} minutes' if minutes >= 1 else f'{forecast.seconds:.0f} seconds'} here",
        highlight=False,
    )


def _texts(request: TrainOptions, models: Models, prompts: list[Prompt] | None) -> IntArray:
    """The texts that are learnt from, and `HELD_OUT` more, shape (count, length)."""
    from otspec.decode.distillation.texts import read_texts

    source = request.texts
    word, _, number = source.partition(":")
    if word.endswith(".safetensors"):
        refuse(CONFLICTS, {"--prompts": prompts, "--length": request.writing.length, TEXT_FILE: True})
        found = read_texts(Path(source), models.target)
        if len(found) <= HELD_OUT:
            raise DataError(f"{source} holds {len(found)} texts, and {HELD_OUT} are held out; write more of them")
        return found
    counted = (number if word == MAGPIE else source) or "1024"
    if not counted.isdecimal() or not 0 < int(counted[:LONGEST]) <= MOST or (word == MAGPIE and prompts is not None):
        raise ProblemError(f"texts are {source!r}; pass how many, {MAGPIE} or {MAGPIE}:N without --prompts, or a file")
    count = int(counted) + HELD_OUT
    return write_texts(
        request.writing, request.seed, models, prompts, word == MAGPIE, count, [1.0], request.out / "texts.safetensors"
    )

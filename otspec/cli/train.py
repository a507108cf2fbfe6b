"""`otspec train`: a draft model that learns from its target."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from otspec.cli import options
from otspec.cli.groups import grouped
from otspec.cli.names import LOSSES, TRAINED, listed
from otspec.cli.prompts import FORMAT, ChatOptions, read_prompts
from otspec.cli.sampling import PlaceOptions, Target
from otspec.errors import DataError, ProblemError
from otspec.reporting.console import console, progress_as_ours, progress_bar

if TYPE_CHECKING:
    from otspec.decode.training import Point

HELD_OUT = 64
"""Texts that the curve is measured on."""


@options.holding
@grouped
def train(
    *,
    kind: Annotated[str, typer.Argument(help=f"The kind: {listed(TRAINED)}.", metavar="KIND")],
    out: Annotated[
        Path,
        typer.Option(
            help="The folder for the draft model, to be passed as --draft; the same command again goes on with it."
        ),
    ],
    target: Target = "shipped",
    draft: Annotated[
        str | None,
        typer.Option(
            help="The draft model that learns, named in the same way; eagle1, medusa and mlp are made of the target.",
            show_default="shipped",
        ),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            help=f"The prompts that the target goes on with, to write the texts that are learnt from. {FORMAT}",
            show_default="the token that begins a text",
        ),
    ] = None,
    chat: ChatOptions,
    texts: Annotated[int, options.count(help="How many texts the target writes.")] = 1024,
    length: Annotated[int, options.count(help="How many tokens each text has.", least=2)] = 256,
    steps: Annotated[int, options.count(help="How many steps of training are done.")] = 600,
    batch: Annotated[int, options.count(help="How many texts a step learns from.")] = 16,
    rate: Annotated[
        float, typer.Option(help="The learning rate; take 2e-5 to 5e-5 for billions of parameters.")
    ] = 1e-3,
    loss: Annotated[
        str | None,
        typer.Option(
            help=f"The loss: {listed(LOSSES)}; eagle, of hidden states too, is for eagle1.",
            show_default="kl, or eagle for eagle1",
        ),
    ] = None,
    ahead: Annotated[
        int | None,
        options.count(
            help="How many drafts in a row are learnt: heads of medusa and mlp, passes of eagle and eagle1 over their "
            "own outputs.",
            show_default="4 for medusa, 1 for eagle1, else 3",
        ),
    ] = None,
    seed: Annotated[int, options.seed(help="The seed of the texts and of training.")] = 0,
    every: Annotated[int, options.count(help="How many steps lie between two points of the curve.")] = 50,
    place: PlaceOptions,
) -> None:
    """Train a draft model on text that its target writes at temperature 1, with the target's laws as labels.

    The command writes the model, its curve and what is known of it into the folder.  A run that is killed goes on where
    it stopped.
    """
    if kind not in TRAINED:
        raise ProblemError(f"no kind {kind!r}; known: {', '.join(TRAINED)}")
    if loss is not None and loss not in LOSSES:
        raise ProblemError(f"no loss {loss!r}; known: {', '.join(LOSSES)}")
    if not (math.isfinite(rate) and rate > 0):
        raise ProblemError(f"the learning rate is {rate}; pass a number above 0")
    said = None if prompts is None else read_prompts(prompts)
    if (out / "training.json").exists():
        raise DataError(f"{out} holds a trained draft model already; remove it, or give another folder")
    progress_as_ours()
    from otspec.decode.pair.loading import SHIPPED, load_models
    from otspec.decode.training import KINDS, Course, Lessons, own_texts, train_into

    chosen = KINDS[kind]
    course = Course(steps, rate, loss=loss or chosen.loss, seed=seed, ahead=ahead or chosen.ahead)
    chosen.check_loss(str(course.loss))
    if ahead is not None and chosen.ahead is None:
        raise ProblemError(f"{kind} learns one draft at a time, whatever comes after it; leave out --ahead")
    if draft is not None and chosen.of_target:
        raise ProblemError(f"{kind} is made of its target, and no draft model learns; leave out --draft")
    learner = None if chosen.of_target else draft or SHIPPED
    dtype = place.dtype or "float32"  # half precision loses what a step changes
    models = load_models(target, learner, place.device, dtype, packed=False)
    begin = models.tokenizer.bos_token_id
    if said is None and begin is None:
        raise DataError(f"no token begins a text of {target}; pass --prompts FILE")
    starts = [[begin]] if said is None else chat.rows(said, models, length, {"temperature": 1.0})
    out.mkdir(parents=True, exist_ok=True)
    with progress_bar() as bar:
        task = bar.add_task("writing texts", total=texts + HELD_OUT)
        written = own_texts(
            models.target,
            starts,
            texts + HELD_OUT,
            length,
            seed=seed,
            path=out / "texts.safetensors",
            progress=lambda count: bar.update(task, completed=count),
        )
    about = {"texts": {"count": texts, "length": length, "prompts": None if prompts is None else prompts.name}}
    layers = chosen.layers(models.target)
    with progress_bar() as bar:
        task = bar.add_task("training", total=steps)

        def report(point: Point) -> None:
            bar.update(task, completed=point.step)
            each = ", ".join(f"{one:.4f}" for one in point.by_draft)
            several = f" ({each})" if len(point.by_draft) > 1 else ""
            lost = "" if math.isnan(point.loss) else f"loss {point.loss:.4f}, "  # none before the first step
            console.print(f"step {point.step}: {lost}acceptance {point.acceptance:.4f}{several}", highlight=False)

        train_into(
            out,
            kind,
            models,
            (target, learner),
            Lessons(models.target, written[:texts], layers, batch, seed),
            Lessons(models.target, written[texts:], layers, batch),
            course,
            every=every,
            said=about,
            report=report,
        )
    console.print(f"Wrote {out}: otspec decode --target {target} --draft {out}", highlight=False, soft_wrap=True)

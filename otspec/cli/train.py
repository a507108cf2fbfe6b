"""`otspec train`: a draft model that learns from its target."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from otspec.cli import options
from otspec.cli.groups import grouped
from otspec.cli.names import LOSSES, TRAINED, listed
from otspec.cli.prompts import FORMAT, ChatOptions, Prompt, read_prompts
from otspec.cli.sampling import PlaceOptions, Target, draft_names
from otspec.cli.texts import MAGPIE, AskTemperature, check_asking, write_texts
from otspec.errors import DataError, ProblemError
from otspec.reporting.console import LONGEST, MOST, console, progress_as_ours, progress_bar

if TYPE_CHECKING:
    from otspec.decode.pair.loading import Models
    from otspec.decode.training import Forecast, Point
    from otspec.laws import IntArray

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
            help="The draft model that learns, named in the same way; eagle1, eagle3, shared, parallel, "
            "medusa and mlp are made of the target.",
            show_default="shipped",
        ),
    ] = None,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="A folder of this command's, whose draft model learns on: from other texts, by another loss, or all "
            "of it after sd2-frozen.",
            show_default=False,
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
    texts: Annotated[
        str,
        typer.Option(
            help=f"The texts that are learnt from: how many the target writes; or {MAGPIE}, or {MAGPIE}:N: N of them, "
            "for which it asks itself; or a file that `otspec texts` wrote.",
        ),
    ] = "1024",
    ask_temperature: AskTemperature = None,
    length: Annotated[int, options.count(help="How many tokens each text has.", least=2)] = 256,
    steps: Annotated[int, options.count(help="How many steps of training are done.")] = 600,
    batch: Annotated[int, options.count(help="How many texts a step learns from.")] = 16,
    rate: Annotated[
        float, typer.Option(help="The learning rate; take 2e-5 to 5e-5 for billions of parameters.")
    ] = 1e-3,
    loss: Annotated[
        str | None,
        typer.Option(
            help=f"The loss: {listed(LOSSES)}, or alpha:n, the chance that n i.i.d. drafts are all refused, or topk:K, "
            "the cross-entropy of the target's K likeliest tokens, or a sum such as kl+alpha:4 or kl+0.5*topk:10; "
            "eagle, of hidden states too, is for eagle1.",
            show_default="kl, or eagle for eagle1",
        ),
    ] = None,
    on_policy: Annotated[
        float,
        options.probability(
            help="The share of steps that learn from text that the draft model writes itself, as it is by then; for "
            "distilled.",
        ),
    ] = 0.0,
    ahead: Annotated[
        int | None,
        options.count(
            help="How many drafts in a row are learnt: heads of medusa and mlp, depths of parallel, passes of eagle, "
            "eagle1, eagle3 and shared over their own outputs.",
            show_default="5 for parallel, 4 for medusa, 1 for eagle1, else 3",
        ),
    ] = None,
    draft_tokens: Annotated[
        int | None,
        options.count(
            help="How many tokens are drafted, the most frequent ones of the texts, for eagle3, shared and parallel.",
            show_default="all",
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
    _check(kind, draft, from_, draft_tokens, rate)
    check_asking(ask_temperature, texts.partition(":")[0] == MAGPIE)
    said = None if prompts is None else read_prompts(prompts)
    if (out / "training.json").exists():
        raise DataError(f"{out} holds a trained draft model already; remove it, or give another folder")
    progress_as_ours()
    from otspec.decode.lessons.texts import most_frequent
    from otspec.decode.pair.loading import load_models
    from otspec.decode.training import KINDS, Course, Lessons, read_record, train_into, with_earlier

    chosen = KINDS[kind]
    earlier = None if from_ is None else read_record(from_, kind)
    before = None if earlier is None else earlier["ahead"]
    course = Course(
        steps, rate, loss=loss or chosen.loss, seed=seed, ahead=ahead or before or chosen.ahead, on_policy=on_policy
    )
    chosen.check_loss(str(course.loss))
    if ahead is not None and chosen.ahead is None:
        raise ProblemError(f"{kind} learns one draft at a time, whatever comes after it; leave out --ahead")
    if chosen.built and before not in (None, course.ahead):
        raise ProblemError(f"{from_} is made for {before} drafts in a row, not {ahead}; leave out --ahead")
    if draft is not None and chosen.of_target:
        raise ProblemError(f"{kind} is made of its target, and no draft model learns; leave out --draft")
    if draft_tokens is not None and not chosen.shares:
        raise ProblemError(f"{kind} drafts all tokens; leave out --draft-tokens, and decode with --drafter fr")
    named = next(iter(draft_names(target, None if draft is None else [draft])), None)
    if named is None and not chosen.of_target and from_ is None:
        raise ProblemError(f"{kind} is made of a draft model, and none is known for {target}; pass --draft")
    learner = None if chosen.of_target or from_ is not None else named
    dtype = place.dtype or "float32"  # half precision loses what a step changes
    models = load_models(target, learner, place.device, dtype, packed=chosen.shares)
    if from_ is not None and earlier is not None:
        learner, models = str(from_), with_earlier(models, from_, earlier, dtype)
    chosen.check_on_policy(on_policy, models.target)
    layers = chosen.layers(models.target)
    written = _texts(texts, models, said, chat, length, ask_temperature, seed, out)
    count = len(written) - HELD_OUT
    kept = getattr(models.draft, "kept", None)  # of one that goes on
    if draft_tokens is not None:
        kept = most_frequent(written[:count], draft_tokens, models.target)
    about = {
        "texts": {
            "count": count,
            "length": written.shape[1],
            "from": texts if prompts is None else prompts.name,
            **({} if ask_temperature is None else {"ask_temperature": ask_temperature}),
        }
    }
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
            Lessons(models.target, written[:count], layers, batch, seed, kept=kept),
            Lessons(models.target, written[count:], layers, batch, kept=kept),
            course,
            every=every,
            earlier=earlier,
            said=about,
            report=report,
            forecast=_tell,
        )
    console.print(f"Wrote {out}: otspec decode --target {target} --draft {out}", highlight=False, soft_wrap=True)


def _check(kind: str, draft: str | None, from_: Path | None, draft_tokens: int | None, rate: float) -> None:
    """What can be said before anything is loaded."""
    if kind not in TRAINED:
        raise ProblemError(f"no kind {kind!r}; known: {', '.join(TRAINED)}")
    if not (math.isfinite(rate) and rate > 0):
        raise ProblemError(f"the learning rate is {rate}; pass a number above 0")
    if from_ is not None and draft is not None:
        raise ProblemError(f"the draft model of {from_} is what learns; leave out --draft, or --from")
    if from_ is not None and draft_tokens is not None:
        raise ProblemError(f"the draft model of {from_} has its tokens; leave out --draft-tokens, or --from")


def _tell(forecast: Forecast) -> None:
    """What the training will take."""
    minutes = forecast.seconds / 60
    console.print(
        f"{forecast.weights:,} weights learn from {forecast.tokens:,} tokens; that takes some "
        f"{f'{minutes:.0f} minutes' if minutes >= 1 else f'{forecast.seconds:.0f} seconds'} here",
        highlight=False,
    )


def _texts(
    source: str,
    models: Models,
    prompts: list[Prompt] | None,
    chat: ChatOptions,
    length: int,
    ask_temperature: float | None,
    seed: int,
    out: Path,
) -> IntArray:
    """What is learnt from, and `HELD_OUT` texts more, shape (count, length)."""
    from otspec.decode.lessons.texts import read_texts

    word, _, number = source.partition(":")
    if word.endswith(".safetensors"):
        if prompts is not None:
            raise ProblemError(f"{source} has texts already; leave out --prompts")
        found = read_texts(Path(source), models.target)
        if len(found) <= HELD_OUT:
            raise DataError(f"{source} holds {len(found)} texts, and {HELD_OUT} are held out; write more of them")
        return found
    counted = (number if word == MAGPIE else source) or "1024"
    if not counted.isdecimal() or not 0 < int(counted[:LONGEST]) <= MOST or (word == MAGPIE and prompts is not None):
        raise ProblemError(f"texts are {source!r}; pass how many, {MAGPIE} or {MAGPIE}:N without --prompts, or a file")
    count = int(counted) + HELD_OUT
    path = out / "texts.safetensors"
    return write_texts(models, prompts, chat, word == MAGPIE, count, length, [1.0], ask_temperature, seed, path)

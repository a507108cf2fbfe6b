"""`otspec tune`: the fastest lossless settings for a pair of models on this machine, measured and kept in a file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otspec.cli import options
from otspec.cli.drafters import DrafterFiles
from otspec.cli.groups import grouped
from otspec.cli.prompts import FORMAT, ChatOptions, read_prompts
from otspec.cli.sampling import DecodingOptions, MaxNewTokens, PairOptions, SamplingOptions
from otspec.errors import DataError, ProblemError
from otspec.reporting.console import console, numbers, progress_as_ours, progress_bar
from otspec.reporting.tables import TextTable
from otspec.writing import write_text

if TYPE_CHECKING:
    from otspec.decode import Tuning
    from otspec.decode.pair.loading import Models

STEPS = 100
"""Of the progress bar."""


def _duration(value: float) -> float:
    if not 0 < value < math.inf:
        raise typer.BadParameter(f"{value:g} s; grant the measurement some time, 20 or more for figures to trust")
    return value


def _calculated(text: str) -> TextTable:
    """What alpha, c and gamma promise."""
    try:
        alpha, c, *rest = (float(word) for word in options.words(text))
        gamma = [int(word) for word in rest]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r}; write alpha,c or alpha,c,gamma, as in 0.8,0.05", param_hint="--calculate"
        ) from None

    from otspec.walltime import speed_up

    best = speed_up(alpha, c, *gamma[:1])
    shown = (
        {best.gamma: best} if gamma else {at: speed_up(alpha, c, at) for at in (1, 2, 3, 4, 6, 8)} | {best.gamma: best}
    )
    rows: list[tuple[str, ...]] = [
        (str(at), f"{one.tokens:.3f}", f"{one.factor:.3f}", f"{one.operations:.3f}")
        for at, one in sorted(shown.items())
    ]
    note = (
        "Theorems 3.8 and 3.11 of Leviathan et al., 2023: one path, drafts accepted independently, passes of one cost."
    )
    header = ("gamma", "tokens a call", "times as fast", "times the operations")
    title = f"alpha = {alpha:g}, c = {c:g}: {'' if gamma else 'fastest with '}gamma = {best.gamma}"
    return TextTable(title, header, rows, note, labels=1)


@options.holding
@grouped
def tune(
    *,
    calculate: Annotated[
        str | None,
        typer.Option(
            metavar="ALPHA,C[,GAMMA]",
            help="Measure nothing: print what gamma drafts gain, each accepted with probability alpha and taking c "
            "calls of the target; without gamma, the fastest too.",
        ),
    ] = None,
    pair: PairOptions,
    drafter: Annotated[
        str | None,
        typer.Option(help="A draft model of the target's own, by name: eagle.", show_default="the draft model"),
    ] = None,
    prompts: Annotated[Path | None, typer.Option(help=FORMAT, show_default="held-out text of the shipped pair")] = None,
    chat: ChatOptions,
    sampling: SamplingOptions,
    paths: Annotated[str, typer.Option(help="The numbers of drafted paths to try, a list.")] = "1,2,4",
    depth: Annotated[int, options.count(help="The largest number of tokens of a path to try.")] = 8,
    draft_top_k: Annotated[str, typer.Option(help="The truncations of drafts to try besides none, a list.")] = "20,100",
    max_new_tokens: MaxNewTokens = 64,
    seconds: Annotated[float, typer.Option(callback=_duration, help="About how many seconds to measure.")] = 25.0,
    seed: Annotated[int, options.seed(help="The seed of the first text; the next one has seed + 1.")] = 0,
    place: DecodingOptions,
    out: Annotated[Path, options.out_file("--out", help="The file for the settings, in JSON.")] = Path("settings.json"),
    json_file: Annotated[
        Path | None,
        options.out_file("--json", help="A file to which all that was measured and predicted is written as well."),
    ] = None,
) -> None:
    """Measure for a short while which lossless way to decode is the fastest, and write it to a file.

    The command times the passes of both models, decodes a little in several ways, predicts the speed-up of every number
    of paths, depth and truncation, and then measures the best of them beside plain decoding.  Where nothing is faster
    than that, the settings are plain decoding.  `otspec decode --settings FILE` uses the file; so does --pace FILE,
    which chooses before every step how deep to draft, by what whole steps of every depth took.
    """
    if calculate is not None:
        console.print(_calculated(calculate).on_screen(console.width))
        return
    counts, cuts = numbers("--paths", paths), numbers("--draft-top-k", draft_top_k)
    said = None if prompts is None else read_prompts(prompts)
    if said is None and pair.target != "shipped":
        raise DataError(f"no prompts for {pair.target}; pass --prompts FILE")
    if drafter is None:
        pair.check_drafts("ways to draft with one are compared")
    from otspec.decode.shipped import held_out
    from otspec.decode.tuning.report import tables

    progress_as_ours()
    place.use_threads(batch=1)
    models, names = _models(pair, drafter, place), (pair.target, drafter or pair.names[1])
    rows = held_out() if said is None else chat.rows(said, models, max_new_tokens, sampling.given)
    tuning = measured(
        models,
        names,
        rows,
        sampling.given,
        paths=counts,
        depth=depth,
        draft_top_k=cuts,
        max_new_tokens=max_new_tokens,
        seconds=seconds,
        seed=seed,
    )
    for table in tables(tuning):
        console.print(table.on_screen(console.width))
    tuning.tuned.save(out)
    if json_file is not None:
        write_text(json_file, json.dumps(tuning.record(), indent=2) + "\n")
    console.print(f"Chosen: {tuning.tuned.why}", highlight=False, soft_wrap=True)
    by = "" if drafter is None else f"--drafter {drafter} "
    console.print(f"Wrote {out}; use it with `otspec decode {by}--settings {out}`", highlight=False, soft_wrap=True)


def _models(pair: PairOptions, drafter: str | None, place: DecodingOptions) -> Models:
    """The pair, with the draft model that a name stands for."""
    models = pair.load(place)
    if drafter is None:
        return models
    from otspec.decode.methods.drafting import drafting

    found = drafting(drafter, DrafterFiles().request(models, pair.target, pair.names[1]))
    if found.settings:
        raise ProblemError(
            f"--drafter {drafter} is settings of a draft model, and tuning compares ways to draft with one as it is; "
            "leave it out, or pass eagle"
        )
    return found.models


def measured(
    models: Models,
    names: tuple[str, str],
    rows: Sequence[Sequence[int]],
    sampling: Mapping[str, Any],
    **settings: Any,
) -> Tuning:
    """Tune, and show how far it is."""
    from otspec.decode import tune as measure

    assert models.draft is not None  # the command always names one
    with progress_bar() as bar:
        task = bar.add_task("warming up", total=STEPS)
        return measure(
            models.target,
            models.draft,
            rows,
            names=names,
            tokenizer=models.tokenizer,
            draft_tokenizer=models.draft_tokenizer,
            progress=lambda stage, share: bar.update(task, description=stage, completed=round(STEPS * share)),
            **sampling,
            **settings,
        )

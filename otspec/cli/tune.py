"""`otspec tune`: the fastest lossless settings for a pair of models on this machine, measured and written to a file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otspec.cli import options
from otspec.cli.drafters import DrafterFiles
from otspec.cli.groups import with_option_groups
from otspec.cli.options import OutFile
from otspec.cli.prompts import PromptOptions
from otspec.cli.sampling import DecodingOptions, PairOptions, Sampling
from otspec.errors import ProblemError
from otspec.reporting.console import console, numbers, progress_as_ours, progress_bar
from otspec.reporting.tables import TextTable
from otspec.settings import Count, Seed
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
        if len(rest) > 1 or gamma != rest:
            raise ValueError(text)
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


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """What `otspec tune` takes."""

    calculate: str | None = None
    """Measure nothing: from alpha,c or alpha,c,gamma, print what gamma drafts gain, each accepted with probability
    alpha and as costly as c target calls; without gamma, the fastest too."""
    pair: PairOptions
    drafter: str | None = None
    """A draft model of the target's own, by name: eagle; by default the draft model."""
    text: PromptOptions
    sampling: Sampling
    paths: str = "1,2,4"
    """The numbers of drafted paths to try, a list."""
    depth: Count = 8
    """The largest number of tokens of a path to try."""
    draft_top_k: str = "20,100"
    """The truncations of drafts to try besides none, a list."""
    max_new_tokens: Count = 64
    """How many new tokens every text gets at most."""
    seconds: Annotated[float, _duration] = 25.0
    """About how many seconds to measure."""
    seed: Seed = 0
    """The seed of the first text; the next one has seed + 1."""
    place: DecodingOptions
    out: OutFile = Path("settings.json")
    """The file for the settings, in JSON."""
    json: OutFile | None = None
    """A file to which all that was measured and predicted is written as well."""


@with_option_groups
@options.holding
def tune(request: TuneOptions) -> None:
    """Measure for a short while which lossless way to decode is the fastest, and write it to a file.

    The command decodes a little in several ways, predicts the speed-up of every number of paths, depth and truncation,
    and then measures the best of them beside plain decoding.  Where nothing is faster than that, the settings are plain
    decoding.  `otspec decode --settings FILE` uses the file.
    """
    if request.calculate is not None:
        console.print(_calculated(request.calculate).on_screen(console.width))
        return
    counts, cuts = numbers("--paths", request.paths), numbers("--draft-top-k", request.draft_top_k)
    options.check_apart([request.text.prompts], out=request.out, json=request.json)
    prompts = request.text.read(request.pair.target)
    if request.drafter is None:
        request.pair.check_drafts("ways to draft with one are compared")
    from otspec.decode.tuning.report import tables

    progress_as_ours()
    request.place.use_threads(batch=1)
    models = _models(request.pair, request.drafter, request.place)
    names = request.pair.target, request.drafter or request.pair.names[1]
    rows = request.text.rows(prompts, models, request.max_new_tokens, request.sampling)
    tuning = measured(
        models,
        names,
        rows,
        request.sampling,
        paths=counts,
        depth=request.depth,
        draft_top_k=cuts,
        max_new_tokens=request.max_new_tokens,
        seconds=request.seconds,
        seed=request.seed,
    )
    for table in tables(tuning):
        console.print(table.on_screen(console.width))
    tuning.tuned.save(request.out)
    if request.json is not None:
        write_text(request.json, json.dumps(tuning.record(), indent=2) + "\n")
    console.print(f"Chosen: {tuning.tuned.why}", highlight=False, soft_wrap=True)
    by = "" if request.drafter is None else f"--drafter {request.drafter} "
    use = f"otspec decode {by}--settings {request.out}"
    console.print(f"Wrote {request.out}; use it with `{use}`", highlight=False, soft_wrap=True)


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
    models: Models, names: tuple[str, str], rows: Sequence[Sequence[int]], sampling: Mapping[str, Any], **settings: Any
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

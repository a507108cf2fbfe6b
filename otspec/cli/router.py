"""`otspec router`: a router of shortlists for a draft model, trained on text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from otspec.cli import options
from otspec.cli.groups import grouped
from otspec.cli.prompts import ChatOptions, read_prompts
from otspec.cli.sampling import MODEL, Draft, PlaceOptions
from otspec.errors import DataError
from otspec.reporting.console import console, progress_bar

JSON_LINES = ".jsonl"
ANSWER = 128
"""Tokens of an answer, at most."""
TEXT = 256
"""Tokens of a text, or as many as the draft model knows positions for."""


@options.holding
@grouped
def router(
    *,
    files: Annotated[
        list[Path],
        typer.Argument(
            help="The files to learn from, of the kind that will be decoded: text in UTF-8; or, if the name ends in "
            ".jsonl, prompts as `otspec decode` takes them, which the draft model answers, or the target.",
        ),
    ],
    chat: ChatOptions,
    out: Annotated[Path, options.out_file("--out", help="The .safetensors file to write.")],
    draft: Draft = "shipped",
    target: Annotated[
        str | None,
        typer.Option(help=f"The target, if the draft model looks at its hidden states; it answers prompts: {MODEL}"),
    ] = None,
    clusters: Annotated[int, options.count(help="How many clusters the tokens are put into.")] = 64,
    most: Annotated[
        int | None, options.count(help="How many clusters a shortlist has at first.", show_default="a quarter of them")
    ] = None,
    width: Annotated[int, options.count(help="The width of the router's hidden layer.")] = 128,
    likeliest: Annotated[int, options.count(help="How many of the likeliest tokens a position is learnt by.")] = 8,
    epochs: Annotated[int, options.count(help="How often each position is learnt from.")] = 6,
    tokens: Annotated[int, options.count(help="How many tokens of the files are learnt from, at most.")] = 100_000,
    seed: Annotated[int, options.seed(help="The seed of the clusters, of the router, and of the choice of texts.")] = 0,
    place: PlaceOptions,
) -> None:
    """Cluster a draft model's tokens, and train a router that chooses clusters by the context (DynaSpec).

    A draft model that looks at a target's hidden states is learnt from as it drafts, with these (--target).
    `otspec.generate(..., draft_shortlist=Router.load(FILE))` drafts by it.
    """
    written = [_text(file) for file in files if file.suffix != JSON_LINES]  # before anything is loaded
    said = [one for file in files if file.suffix == JSON_LINES for one in read_prompts(file)]
    from otspec.decode import Budget, train_router
    from otspec.decode.drafters.eagle.model import Eagle
    from otspec.decode.drafters.sd2.model import Steered
    from otspec.decode.models.context import positions
    from otspec.decode.pair.loading import Models, load_models, load_reader

    if target is None:
        model, tokenizer = load_reader(draft, place.device, place.dtype)
        models = Models(model, tokenizer)
    else:
        models = load_models(target, draft, place.device, place.dtype)
        assert models.draft is not None  # it has a name
        model, tokenizer = models.draft, models.tokenizer
    rows = [list(tokenizer(text, add_special_tokens=False, verbose=False).input_ids) for text in written]
    if said:
        new = min(ANSWER, int(positions(model)) // 4)
        rows += chat.rows(said, models._replace(draft=None), new, {"temperature": 1.0}, answered=True)
    looks = isinstance(model, Eagle | Steered) or not said  # at the target; of another, prompts alone have a use for it
    texts = _some(rows, int(min(TEXT, positions(model))), tokens, seed)
    budget = None if most is None else Budget(most, falling=2, least=max(most // 4, 1))
    with progress_bar() as bar:
        task = bar.add_task("reading with the draft model", total=epochs)

        def report(epoch: int, loss: float) -> None:
            bar.update(task, description=f"loss {loss:.3f}", completed=epoch)

        made = train_router(
            model,
            texts,
            target=models.target if target is not None and looks else None,
            clusters=clusters,
            budget=budget,
            width=width,
            likeliest=likeliest,
            epochs=epochs,
            seed=seed,
            report=report,
        )
    made.save(out)
    told = f"{made.count} clusters, at most {made.budget.most} on a shortlist"
    learnt = f"learnt from {made.about['positions']} tokens"
    console.print(f"Wrote {out}: {told}, {learnt}", highlight=False, soft_wrap=True)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read: {error}") from error


def _some(rows: Sequence[Sequence[int]], length: int, tokens: int, seed: int) -> list[list[int]]:
    """Texts of so many tokens, drawn without replacement, until there are enough."""
    import numpy as np

    cut = [list(row[start : start + length]) for row in rows for start in range(0, len(row), length)]
    if not cut:
        raise DataError("the files are empty; there is nothing to learn from")
    order = np.random.default_rng(seed).permutation(len(cut))
    return [cut[index] for index in order[: max(tokens // length, 1)]]

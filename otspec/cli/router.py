"""`otspec router`: a router of shortlists for a draft model, trained on text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from otspec.cli import options
from otspec.cli.groups import with_option_groups
from otspec.cli.options import ARGUMENT, OutFile
from otspec.cli.prompts import ChatOptions, read_prompts
from otspec.cli.sampling import NONE, PlaceOptions
from otspec.errors import DataError
from otspec.reporting.console import console, progress_as_ours, progress_bar
from otspec.settings import Count, Seed

JSON_LINES = ".jsonl"
ANSWER = 128
"""Tokens of an answer, at most."""
TEXT = 256
"""Tokens of a text, or as many as the draft model has positions for."""


@dataclass(frozen=True, kw_only=True)
class RouterOptions:
    """What `otspec router` takes."""

    files: Annotated[list[Path], ARGUMENT]
    """The files to learn from, of the kind that will be decoded: text in UTF-8; or, if the name ends in .jsonl,
    prompts as `otspec decode` takes them, which the draft model answers, or the target."""
    chat: ChatOptions
    out: OutFile
    """The .safetensors file to write."""
    draft: str = "shipped"
    """The draft model: {MODEL}"""
    target: str | None = None
    """The target, if the draft model receives its hidden states; it answers prompts: {MODEL}"""
    clusters: Count = 64
    """How many clusters the tokens are put into."""
    most: Count | None = None
    """How many clusters a shortlist has at first; by default a quarter of them."""
    width: Count = 128
    """The width of the router's hidden layer."""
    likeliest: Count = 8
    """How many of the likeliest tokens at a position the router learns."""
    epochs: Count = 6
    """How often each position is learnt from."""
    tokens: Count = 100_000
    """How many tokens of the files are learnt from, at most."""
    seed: Seed = 0
    """The seed of the clusters, of the router, and of the choice of texts."""
    place: PlaceOptions


@with_option_groups
@options.holding
def router(request: RouterOptions) -> None:
    """Cluster a draft model's tokens, and train a router that chooses clusters by the context (DynaSpec).

    From a draft model that receives a target's hidden states it learns with these, as it drafts (--target).
    `otspec.generate(..., draft_shortlist=Router.load(FILE))` drafts by it.
    """
    options.check_apart(request.files, out=request.out)
    options.check_new(request.out)
    if request.draft == NONE:
        raise DataError("a router is for a draft model; name one by --draft")
    written = [_text(file) for file in request.files if file.suffix != JSON_LINES]  # before anything is loaded
    prompts = [one for file in request.files if file.suffix == JSON_LINES for one in read_prompts(file)]
    from otspec.decode import Budget, train_router
    from otspec.decode.drafters.eagle.model import Eagle
    from otspec.decode.drafters.sd2.model import Steered
    from otspec.decode.models.context import positions
    from otspec.decode.pair.loading import Models, load_models, load_reader

    progress_as_ours()
    if request.target is None:
        model, tokenizer = load_reader(request.draft, request.place.device, request.place.dtype)
        models = Models(model, tokenizer)
    else:
        models = load_models(request.target, request.draft, request.place.device, request.place.dtype)
        assert models.draft is not None  # it has a name
        options.check_one_tokenizer(models, request.target, request.draft)
        model, tokenizer = models.draft, models.tokenizer
    rows = [list(tokenizer(text, add_special_tokens=False, verbose=False).input_ids) for text in written]
    if prompts:
        new = int(min(ANSWER, positions(model) // 4))  # of some models, infinitely many
        rows += request.chat.rows(prompts, models._replace(draft=None), new, {"temperature": 1.0}, answered=True)
    fed = isinstance(model, Eagle | Steered) or not prompts  # with features; else the target only answers prompts
    texts = _some(rows, int(min(TEXT, positions(model))), request.tokens, request.seed)
    budget = None if request.most is None else Budget(request.most, falling=2, least=max(request.most // 4, 1))
    with progress_bar() as bar:
        task = bar.add_task("reading with the draft model", total=request.epochs)

        def report(epoch: int, loss: float) -> None:
            bar.update(task, description=f"loss {loss:.3f}", completed=epoch)

        settings = {name: getattr(request, name) for name in ("clusters", "width", "likeliest", "epochs", "seed")}
        target = models.target if request.target is not None and fed else None
        made = train_router(model, texts, target=target, budget=budget, report=report, **settings)
    made.save(request.out)
    message = f"{made.count} clusters, at most {made.budget.most} on a shortlist"
    learnt = f"learnt from {made.about['positions']} tokens"
    console.print(f"Wrote {request.out}: {message}, {learnt}", highlight=False, soft_wrap=True)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read: {error}") from error


def _some(rows: Sequence[Sequence[int]], length: int, tokens: int, seed: int) -> list[list[int]]:
    """Texts of that length at most, drawn without replacement, and of them so many tokens at most."""
    import numpy as np

    cut = [list(row[start : start + length]) for row in rows for start in range(0, len(row), length)]
    if not cut:
        raise DataError("the files are empty; there is nothing to learn from")
    order = np.random.default_rng(seed).permutation(len(cut))
    found = []
    for index in order:
        found.append(cut[index][:tokens])
        if (tokens := tokens - len(found[-1])) == 0:
            break
    return found

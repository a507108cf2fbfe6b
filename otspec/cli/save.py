"""`otspec save`: a model as a folder, which transformers and engines read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from otspec.cli import options
from otspec.cli.names import FORMATS, listed
from otspec.cli.sampling import MODEL, Dtype
from otspec.errors import DataError, ProblemError
from otspec.reporting.console import console, progress_as_ours


def save(
    name: Annotated[str, typer.Argument(metavar="MODEL", help=f"The model: {MODEL}")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write.")],
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help=f"The format of a draft model that engines serve: {listed(FORMATS)}; for eagle1-published and "
            "eagle3-published of `otspec train`, and for published ones.",
            show_default="as from_pretrained reads it",
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The folder of the target that speculators name.", show_default="none")
    ] = None,
    ahead: Annotated[
        int | None, options.count(help="How many drafts in a row speculators name.", show_default="3")
    ] = None,
    dtype: Dtype = None,
) -> None:
    """Write a model and its tokenizer as `from_pretrained` and vLLM read them: a GGUF file becomes a folder.

    Weights are held in float32 unless --dtype says otherwise; bfloat16 takes half the room.  With --format a draft
    model is written as others publish theirs, without a tokenizer, which is the target's.
    """
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise DataError(f"{folder} is there already; delete it, or name another folder")
    if form is None and (target or ahead):
        raise ProblemError("--target and --ahead are what speculators say of a draft model; pass --format, too")
    from otspec.decode.drafters.published.writing import write_published
    from otspec.decode.pair.loading import load_draft, load_models, save_model

    progress_as_ours()
    model: Any
    if form is None:
        model, tokenizer, *_ = load_models(name, None, "cpu", dtype, packed=False)
        save_model(model, tokenizer, folder)
    else:
        model, _ = load_draft(name, "cpu", dtype)
        write_published(model, folder, form, target, ahead)
    kind = str(model.dtype).removeprefix("torch.")
    parameters = model.num_parameters()
    console.print(f"Wrote {folder}: {parameters:,} parameters in {kind}", highlight=False, soft_wrap=True)

"""`otspec save`: a model as a folder, which transformers and engines read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from otspec.cli.sampling import MODEL, Dtype
from otspec.errors import DataError
from otspec.reporting.console import console, progress_as_ours


def save(
    name: Annotated[str, typer.Argument(metavar="MODEL", help=f"The model: {MODEL}")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write.")],
    dtype: Dtype = None,
) -> None:
    """Write a model and its tokenizer as `from_pretrained` and vLLM read them: a GGUF file becomes a folder.

    Weights are held in float32 unless --dtype says otherwise; bfloat16 takes half the room.
    """
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise DataError(f"{folder} is there already; delete it, or name another folder")
    from otspec.decode.pair.loading import load_models, save_model

    progress_as_ours()
    models = load_models(name, None, "cpu", dtype, packed=False)
    save_model(models.target, models.tokenizer, folder)
    kind = str(models.target.dtype).removeprefix("torch.")
    parameters = models.target.num_parameters()
    console.print(f"Wrote {folder}: {parameters:,} parameters in {kind}", highlight=False, soft_wrap=True)

"""`otspec export-generate`: a folder that transformers' `generate` decodes by."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from otspec.cli.groups import Of, grouped
from otspec.decode.settings import DraftSettings
from otspec.reporting.console import console


@grouped
def export_generate(
    *,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write; it may have a model in it.")],
    draft: Annotated[
        str,
        typer.Option(
            help="The draft model: shipped, a folder written by save_pretrained, or a name on the hub; none if it will "
            "be passed as `assistant_model`."
        ),
    ] = "shipped",
    drafts: Annotated[dict[str, Any], Of(DraftSettings)],
) -> None:
    """Write a folder for `model.generate(custom_generate=DIR, trust_remote_code=True)`, ready for a hub.

    The function in it drafts by these settings.  A folder as the draft model is found on this machine only: upload that
    model as well, and name it.
    """
    from otspec.decode.exporting import export

    for file in export(folder, None if draft == "none" else draft, **drafts):
        console.print(f"Wrote {file}", highlight=False, soft_wrap=True)

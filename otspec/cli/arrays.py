"""The options of every command that reads a file of positions: which of its arrays, and what they hold."""

from __future__ import annotations

from typing import Annotated

import typer

TargetKey = Annotated[
    str | None,
    typer.Option(help="The name of the target's array in the file, where it has another; pass --draft-key too."),
]
DraftKey = Annotated[str | None, typer.Option(help="The name of the draft's array in the file.")]
Kind = Annotated[
    str | None, typer.Option(help="What the arrays hold, logits or probs, where neither names nor values tell.")
]

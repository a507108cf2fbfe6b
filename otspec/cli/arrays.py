"""The options of every command that reads a file of positions: which of its arrays, and what they hold."""

from __future__ import annotations

from typing import Annotated

import typer

TargetKey = Annotated[
    str | None, typer.Option(help="Name of the target's array in the file, where it has another; with --draft-key.")
]
DraftKey = Annotated[str | None, typer.Option(help="Name of the draft's array.")]
Kind = Annotated[
    str | None, typer.Option(help="logits or probs: what the arrays hold, where neither names nor values tell.")
]

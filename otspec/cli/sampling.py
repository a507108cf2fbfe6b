"""The options that every command has which decodes: a pair of models, and how they are sampled."""

from __future__ import annotations

from typing import Annotated

import typer

_MODEL = "shipped, a folder written by save_pretrained, or a name on the hub."

Target = Annotated[str, typer.Option(help=f"The model whose text it is: {_MODEL}")]
Draft = Annotated[str, typer.Option(help="The model that drafts, named likewise.")]
Temperature = Annotated[float, typer.Option(help="Of both models; 0 is greedy.")]
TopK = Annotated[int | None, typer.Option(help="Keep the k likeliest tokens of both models.")]
TopP = Annotated[float | None, typer.Option(help="Keep the likeliest tokens of this mass.")]
MaxNewTokens = Annotated[int, typer.Option(help="Of every text.", min=1)]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...; a GPU if there is one.")]
Dtype = Annotated[
    str | None,
    typer.Option(
        help="auto (as saved), float32, float64, bfloat16 or float16; on the CPU float32 unless told otherwise."
    ),
]

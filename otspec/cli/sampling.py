"""The options that every command has which decodes: a pair of models, and how they are sampled."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from otspec.cli import options

_MODEL = "shipped, a folder written by save_pretrained, or a name on the hub."

Target = Annotated[str, typer.Option(help=f"The model whose text it is: {_MODEL}")]
Draft = Annotated[str, typer.Option(help="The model that drafts, named likewise.")]
Temperature = Annotated[float, options.temperature(help="Of both models; 0 is greedy.")]
TopK = Annotated[int | None, options.count(help="Keep the k likeliest tokens of both models.")]
TopP = Annotated[float | None, options.mass(help="Keep the likeliest tokens of this mass.")]
DraftTemperature = Annotated[
    float | None,
    options.temperature(help="Of the draft model; 0: certain drafts.", show_default="as --temperature"),
]
DraftTopK = Annotated[
    int | None,
    options.count(help="Keep the k likeliest tokens of the draft model; 0: all.", least=0, show_default="as --top-k"),
]
DraftTopP = Annotated[
    float | None,
    options.mass(help="Keep the draft model's likeliest tokens of this mass; 1: all.", show_default="as --top-p"),
]
DraftConfidence = Annotated[
    float | None,
    options.mass(
        help="End a path after the token at which the draft model's probabilities of its tokens have a smaller product."
    ),
]
Pace = Annotated[
    str | None,
    typer.Option(
        help="goodput: choose before every step how deep to draft, L tokens at most, by what was accepted and how "
        "long steps took; a file that `otspec tune` wrote: by the costs in it, so that a seed repeats the text.",
        show_default="the same always",
    ),
]
MaxNewTokens = Annotated[int, options.count(help="Of every text.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...; a GPU if there is one.")]
Dtype = Annotated[
    str | None,
    typer.Option(
        help="auto (as saved), float32, float64, bfloat16 or float16; on the CPU float32 unless told otherwise."
    ),
]


def given(**settings: Any) -> dict[str, Any]:
    """Those settings that the user gave."""
    return {name: value for name, value in settings.items() if value is not None}

"""The options that every command has which decodes: models, and how they are sampled."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otspec.cli import options

if TYPE_CHECKING:
    from otspec.decode.pair.loading import Models

MODEL = "shipped, a folder written by save_pretrained, a GGUF file, smollm2, or a name on the hub."
"""For --help."""

Target = Annotated[str, typer.Option(help=f"The target model, whose text is written: {MODEL}")]
Draft = Annotated[str, typer.Option(help=f"The draft model: {MODEL}")]
Drafts = Annotated[
    list[str] | None,
    typer.Option(
        help="The draft model, named in the same way; with --law independent, repeat it: each drafts its own paths.",
        show_default="shipped",
    ),
]
MaxNewTokens = Annotated[int, options.count(help="How many new tokens every text gets at most.")]
Device = Annotated[
    str | None, typer.Option(help="The device of the models: cpu, cuda, cuda:1, ...; by default a GPU if there is one.")
]
Dtype = Annotated[
    str | None,
    typer.Option(
        help="The type of the weights: auto (as saved), float32, float64, bfloat16 or float16; by default float32 on a "
        "CPU, and auto elsewhere."
    ),
]


@dataclass(frozen=True)
class PlaceOptions:
    """Where models are, and in what precision."""

    device: Device = None
    dtype: Dtype = None


@dataclass(frozen=True)
class PairOptions:
    """A target and a draft model."""

    target: Target = "shipped"
    draft: Draft = "shipped"

    def load(self, place: PlaceOptions) -> Models:
        """Load both."""
        from otspec.decode.pair.loading import load_models

        return load_models(self.target, self.draft, place.device, place.dtype)


@dataclass(frozen=True, kw_only=True)
class TruncationOptions:
    """Which tokens both models keep."""

    top_k: Annotated[int | None, options.count(help="Keep the k likeliest tokens of both models.")] = None
    top_p: Annotated[
        float | None, options.mass(help="Keep the likeliest tokens of both models that have this mass.")
    ] = None

    @property
    def all(self) -> dict[str, Any]:
        """All of them, by name."""
        return asdict(self)

    @property
    def given(self) -> dict[str, Any]:
        """Those that are not None."""
        return {name: value for name, value in self.all.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class SamplingOptions(TruncationOptions):
    """How texts are sampled."""

    temperature: Annotated[float, options.temperature(help="The temperature of both models; 0 decodes greedily.")] = 1.0

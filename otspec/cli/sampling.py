"""The options that every command has which decodes: models, and how they are sampled."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otspec.cli import options

if TYPE_CHECKING:
    from otspec.decode.pair.loading import Models

_MODEL = "shipped, a folder written by save_pretrained, or a name on the hub."

Target = Annotated[str, typer.Option(help=f"The model whose text it is: {_MODEL}")]
Draft = Annotated[str, typer.Option(help="The model that drafts, named likewise.")]
Drafts = Annotated[
    list[str] | None,
    typer.Option(
        help="The model that drafts, named likewise; with --law independent, repeat it: each drafts paths of its own.",
        show_default="shipped",
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
    top_p: Annotated[float | None, options.mass(help="Keep the likeliest tokens of this mass.")] = None

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

    temperature: Annotated[float, options.temperature(help="Of both models; 0 is greedy.")] = 1.0

"""The options of every command that decodes: models, and how they are sampled."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otspec.cli import options
from otspec.cli.groups import OptionsFrom
from otspec.decode.settings import RunSettings
from otspec.errors import DataError
from otspec.settings import Count

if TYPE_CHECKING:
    from otspec.decode.pair.loading import Models

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables of the environment by which a user sets how many threads torch takes."""
SHIPPED = "shipped"
"""`otspec.decode.pair.loading.SHIPPED`."""
NONE = "none"
"""No draft model, among names of draft models."""

Config = Annotated[dict[str, Any], OptionsFrom(RunSettings, only=("own_config",))]
"""Whether the target's own generation configuration acts."""


def draft_names(target: str, drafts: Sequence[str] | None) -> list[str]:
    """The draft models that are meant: by default that of the shipped pair, for its target alone."""
    if drafts is None:
        return [SHIPPED] if target == SHIPPED else []
    return [] if list(drafts) == [NONE] else list(drafts)


@dataclass(frozen=True)
class PlaceOptions:
    """Where models are, and in what precision."""

    device: str | None = None
    """The device of the models: cpu, cuda, cuda:1, ...; by default a GPU if there is one."""
    dtype: str | None = None
    """The type of the weights: auto (as saved), float32, float64, bfloat16 or float16; by default float32 on a CPU, and
    auto elsewhere."""

    def load(self, target: str, draft: str | Sequence[str] | None) -> Models:
        """Load models, the second one if there is one."""
        from otspec.decode.pair.loading import load_models

        return load_models(target, draft, self.device, self.dtype, **self.spread)

    @property
    def spread(self) -> dict[str, Any]:
        """How a target is spread over devices, if it is to be."""
        return {}


@dataclass(frozen=True, kw_only=True)
class DecodingOptions(PlaceOptions):
    """The same, and whether the target's own generation configuration acts on the text, and the threads."""

    config: Config
    threads: Count | None = None
    """How many threads passes take on a CPU; by default OMP_NUM_THREADS; or 1 for texts one at a time; or
    torch's."""

    def use_threads(self, batch: int) -> None:
        """Set the threads of passes over so many texts at a time.

        One text's passes gain little by a second thread, and lose most of their speed by it where a core is busy.
        """
        import torch

        from otspec.decode.pair.loading import device_of

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        elif batch == 1 and device_of(self.device).type == "cpu" and not any(name in os.environ for name in THREADS):
            torch.set_num_threads(1)

    device_map: str | None = None
    """For a target that does not fit one device, in place of --device: auto, balanced or sequential, or a JSON file
    with the device of each module, disk among them."""
    max_memory: str | None = None
    """How much of such a target each device may hold, as in 0=20GiB,1=20GiB,cpu=60GiB."""

    @property
    def spread(self) -> dict[str, Any]:
        """How the target is spread over devices, if it is to be."""
        spread: dict[str, Any] = {}
        if self.device_map is not None:
            spread["device_map"] = _map_of(self.device_map) if self.device_map.endswith(".json") else self.device_map
        if self.max_memory is not None:
            spread["max_memory"] = dict(map(_memory, options.words(self.max_memory)))
        return spread

    def load(self, target: str, draft: str | Sequence[str] | None) -> Models:
        """Load models, and print in a line what shapes the text beside the options of the command."""
        from otspec.decode.models.own_config import drop_own_config

        models = super().load(target, draft)
        if not self.config.get("own_config", True):
            drop_own_config(models.target)
        say_own_config(target, own_config_of(models))
        return models


def _map_of(name: str) -> Any:
    """The device of each module, from a file."""
    try:
        found = json.loads(Path(name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"the device map {name} cannot be read: {error}; write modules and devices in JSON") from error
    if not isinstance(found, dict):
        raise DataError(f"the device map {name} holds no object; write modules and devices as JSON has them")
    return found


def _memory(text: str) -> tuple[int | str, str]:
    device, equals, size = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r}; write sizes, as in 0=20GiB,cpu=60GiB", param_hint="--max-memory")
    return int(device) if device.isdecimal() else device, size


def own_config_of(models: Models) -> dict[str, Any]:
    """The settings of the target's own generation configuration that act."""
    from otspec.decode.models.own_config import own_config

    return own_config(models.target)


def say_own_config(target: str, acting: Mapping[str, Any]) -> None:
    """Print on stderr that a target's own generation configuration acts."""
    if acting:
        from otspec.auditing.report import settings_text

        typer.secho(
            f"note: the generation_config.json of {target} acts on its text: {settings_text(acting)}; --no-own-config "
            "leaves it out",
            fg="yellow",
            err=True,
        )


@dataclass(frozen=True)
class PairOptions:
    """A target and a draft model."""

    target: str = "shipped"
    """The target model, whose text is written: {MODEL}"""
    draft: str | None = None
    """The draft model: {MODEL} Or {OWN_DRAFTERS}, or none; by default {BY_TARGET}."""

    @property
    def names(self) -> tuple[str, str]:
        """The user's names for both; no draft model is ``"none"``."""
        return self.target, next(iter(draft_names(self.target, [self.draft] if self.draft else None)), NONE)

    def load(self, place: PlaceOptions) -> Models:
        """Load both, or the target alone."""
        target, draft = self.names
        return place.load(target, None if draft == NONE else draft)

    def check_drafts(self, what: str) -> None:
        """Raise if there is no draft model, for the reason given."""
        if self.names[1] == NONE:
            raise DataError(f"no draft model for {self.target}, and {what}; pass --draft")


def sampling_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """How texts are sampled, defaults included, as in lines of JSON."""
    return {"top_k": settings.get("top_k"), "top_p": settings.get("top_p"), **settings}


TRUNCATION = ("top_k", "top_p")
Truncation = Annotated[dict[str, Any], OptionsFrom(RunSettings, only=TRUNCATION)]
"""Which tokens both models keep."""
Sampling = Annotated[
    dict[str, Any], OptionsFrom(RunSettings, only=("temperature", *TRUNCATION), defaults={"temperature": 1.0})
]
"""How texts are sampled."""

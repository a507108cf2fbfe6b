"""A folder with a draft model as others publish it: its settings, its tensors, and what is not known of either."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import PreTrainedConfig, PreTrainedModel

from otspec.errors import DataError, one_line

CONFIG = "config.json"
HEADS = ("medusa_lm_head.safetensors", "medusa_lm_head.pt")
"""Files of Medusa's heads, which may lie beside their target's weights."""
WEIGHTS = ("*.safetensors", "*.bin", "*.pt")
"""Files of weights, in the order in which they are tried."""

SAYS_NOTHING = {
    *PreTrainedConfig().to_dict(),
    *("_name_or_path", "auto_map", "use_cache", "torch_dtype", "dtype", "pretraining_tp", "initializer_range"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings", "attention_dropout", "base_model_tp_plan"),
}
"""Settings that have no bearing on what is computed once a model is trained."""


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a folder."""

    folder: Path
    config: Mapping[str, Any]
    """Of its config.json."""

    @classmethod
    def of(cls, folder: Path) -> Checkpoint | None:
        """That of a folder, if it has a config.json.

        Raises
        ------
        DataError
            If that is none.
        """
        if not (folder / CONFIG).is_file():
            return None
        try:
            config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{folder / CONFIG} cannot be read: {error}") from error
        return cls(folder, config) if isinstance(config, dict) else None

    @cached_property
    def files(self) -> list[Path]:
        """Those of its weights."""
        if heads := [path for name in HEADS if (path := self.folder / name).is_file()]:
            return heads[:1]
        found = (sorted(self.folder.glob(pattern)) for pattern in WEIGHTS)
        return next((paths for paths in found if paths), [])

    @cached_property
    def names(self) -> frozenset[str]:
        """Of its tensors."""
        found: set[str] = set()
        for path in self.files:
            with reading(path):
                if path.suffix == ".safetensors":
                    with safe_open(path, "pt") as file:
                        found.update(file.keys())
                else:
                    found.update(_pickled(path))
        return frozenset(found)

    @cached_property
    def tensors(self) -> Mapping[str, torch.Tensor]:
        """All of them, by name."""
        found: dict[str, torch.Tensor] = {}
        for path in self.files:
            with reading(path):
                found |= load_file(path) if path.suffix == ".safetensors" else _pickled(path)
        return found

    def refusal(self, reason: str) -> DataError:
        """The error that the folder cannot be read for some reason."""
        return DataError(f"the draft model in {self.folder} cannot be read: {reason}")

    def check_settings(self, settings: Iterable[str], known: Collection[str], where: str = CONFIG) -> None:
        """Raise unless all settings are known, or do not change what is computed.

        Raises
        ------
        DataError
            Naming the first that is not.
        """
        for name in sorted(settings):
            if name not in known and name not in SAYS_NOTHING:
                raise self.refusal(f"{where} has a setting {name!r}, of which it is not known what it would change")

    def setting(self, name: str, kind: type, default: Any = None, within: Mapping[str, Any] | None = None) -> Any:
        """A setting of that kind, or the default where there is none.

        Raises
        ------
        DataError
            If it is of another kind, or there is neither.
        """
        value = (self.config if within is None else within).get(name)
        value = default if value is None else value
        if value is None:
            raise self.refusal(f"its settings have no {name!r}")
        if type(value) is not kind:
            raise self.refusal(f"its setting {name!r} is {value!r}, and a {kind.__name__} is wanted")
        return value

    def fill(self, model: PreTrainedModel, own: Callable[[str], str | None], also: Mapping[str, torch.Tensor]) -> Any:
        """The model with these tensors.

        Parameters
        ----------
        model : PreTrainedModel
        own : callable
            The model's name of a tensor that has that name here; None of one that is not the model's.
        also : mapping
            More values, by the model's names.

        Raises
        ------
        DataError
            If a tensor is not known, of another shape, not finite, or missing.
        """
        expected, values = model.state_dict(), dict(also)
        for name, tensor in self.tensors.items():
            mine = own(name)
            if mine is None or mine in also:
                continue
            if mine not in expected:
                raise self.refusal(f"it has a tensor {name!r}, of which it is not known what it would change")
            if tensor.shape != expected[mine].shape:
                raise self.refusal(
                    f"its tensor {name!r} has shape {tuple(tensor.shape)}, and by its settings it has "
                    f"{tuple(expected[mine].shape)}"
                )
            if not torch.isfinite(tensor).all():
                raise self.refusal(f"its tensor {name!r} holds numbers that are not finite")
            values[mine] = tensor
        if missing := [name for name, value in expected.items() if name not in values and value.numel()]:
            raise self.refusal(f"it has no tensor for {missing[0]!r}")
        model.load_state_dict(values, strict=False)
        return model.to(next(one.dtype for one in values.values() if one.is_floating_point())).eval()


@contextmanager
def reading(path: Path, what: str = "weights") -> Iterator[None]:
    """Make errors while a file or a folder is read name it."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"{path} cannot be read as {what}: {one_line(error)}") from error


_pickled = partial(torch.load, map_location="cpu", weights_only=True, mmap=True)

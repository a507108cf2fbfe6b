"""Users' own positions, from .npz and .safetensors files."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from otspec.data.position import Position
from otspec.errors import DataError, ProblemError
from otspec.extras import require
from otspec.laws import FloatArray, as_law

KINDS = (("target_logits", "draft_logits"), ("target_probs", "draft_probs"))
"""Pairs of array names that a file may hold, each of shape (positions, V)."""


class FileSource:
    """Positions of a file that holds target_logits and draft_logits, or target_probs and draft_probs.

    Both arrays have shape (positions, V).  Probabilities are checked as every law is, when their position is read.

    Parameters
    ----------
    path : Path
        A .npz archive, or a .safetensors file (needs the package safetensors; float16, float32 or float64).
    known : tuple of str
        Names of profiles, for the error when there is no such file.
    name : str, optional
        Of the source; that of the file by default.

    Raises
    ------
    DataError
        If the file is missing, of another format, damaged, or without such arrays.
    """

    def __init__(self, path: Path, known: tuple[str, ...] = (), name: str | None = None) -> None:
        self.path = path
        self.name = path.name if name is None else name
        if not path.is_file():
            profiles = f", and no profile has that name (known: {', '.join(known)})" if known else ""
            raise DataError(f"there is no file {path}{profiles}")
        if path.suffix not in _READERS:
            raise DataError(f"{path} is no {' or '.join(_READERS)} file; save arrays {KINDS[0]} or {KINDS[1]} as one")
        try:
            arrays = _READERS[path.suffix](path)
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise DataError(f"{path} cannot be read: {error}") from error
        self._logits, self._target, self._draft = _pair(path, arrays)
        self.vocab = int(self._target.shape[1])

    @property
    def identity(self) -> Mapping[str, object]:
        """Name, size and digest of the file."""
        with self.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"file": self.path.name, "bytes": self.path.stat().st_size, "sha256": digest}

    def __len__(self) -> int:
        return len(self._target)

    def position(self, index: int) -> Position:
        """The position of that index.

        Raises
        ------
        DataError
            If the index is not in 0 .. len - 1, or the row holds no law.
        """
        if not 0 <= index < len(self):
            raise DataError(f"position {index} of {self.path}: indices run from 0 to {len(self) - 1}")
        target, draft = self._target[index], self._draft[index]
        if self._logits:
            return Position(target.astype(np.float64), draft.astype(np.float64))
        return Position(
            _log_law(f"{self.path}: target_probs[{index}]", target),
            _log_law(f"{self.path}: draft_probs[{index}]", draft),
        )


def write_npz(path: Path, positions: Iterable[Position]) -> None:
    """Save positions as float32 logits, in the format that `FileSource` reads."""
    logits = [
        (position.target_logits.astype(np.float32), position.draft_logits.astype(np.float32)) for position in positions
    ]
    target, draft = zip(*logits, strict=True)
    np.savez(path, target_logits=np.array(target), draft_logits=np.array(draft))


def _log_law(name: str, values: FloatArray) -> FloatArray:
    try:
        law = as_law(name, values)
    except ProblemError as error:
        raise DataError(str(error)) from error
    with np.errstate(divide="ignore"):
        return np.log(law)


def _pair(path: Path, arrays: Mapping[str, Any]) -> tuple[bool, Any, Any]:
    """Whether the file holds logits, then the arrays of target and draft."""
    for target_name, draft_name in KINDS:
        if target_name in arrays and draft_name in arrays:
            target, draft = arrays[target_name], arrays[draft_name]
            break
    else:
        wanted = " or ".join(f"{target} with {draft}" for target, draft in KINDS)
        raise DataError(f"{path} holds {', '.join(arrays) or 'no arrays'}; positions need {wanted}")
    for name, array in ((target_name, target), (draft_name, draft)):
        if array.ndim != 2 or 0 in array.shape or not np.issubdtype(array.dtype, np.floating):
            raise DataError(f"{path}: {name} is {array.dtype} of shape {array.shape}; need floats, (positions, V)")
    if target.shape != draft.shape:
        raise DataError(
            f"{path}: {target_name} has shape {target.shape}, {draft_name} {draft.shape}; both need one shape"
        )
    return target_name == "target_logits", target, draft


def _read_npz(path: Path) -> Mapping[str, Any]:
    with np.load(path, allow_pickle=False) as archive:
        names = {name for kind in KINDS for name in kind}
        # Other arrays may be large, and are only named in an error.
        return {name: archive[name] if name in names else None for name in archive.files}


def _read_safetensors(path: Path) -> Mapping[str, Any]:
    safetensors: Any = require("safetensors.numpy")
    try:
        arrays: Mapping[str, Any] = safetensors.load_file(path)
    except require("safetensors").SafetensorError as error:
        raise ValueError(error) from error
    return arrays


_READERS: dict[str, Callable[[Path], Mapping[str, Any]]] = {".npz": _read_npz, ".safetensors": _read_safetensors}

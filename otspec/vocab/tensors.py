"""Named arrays and what they are, in a safetensors file that is there whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from otspec.errors import DataError
from otspec.extras import require
from otspec.writing import named

Arrays = dict[str, npt.NDArray[Any]]

ABOUT = "otspec"
"""Where the header of the file has what the arrays are, as JSON."""


def write_tensors(path: Path, arrays: Mapping[str, npt.NDArray[Any]], about: Mapping[str, Any]) -> None:
    """Replace a file at once: a process that reads it, or is killed meanwhile, has the old one or the new one.

    Parameters
    ----------
    path : Path
        Of the file.
    arrays : mapping of str to ndarray, any shapes
        What it is to hold.
    about : mapping
        What the arrays are, fit for JSON.

    Raises
    ------
    MissingExtra
        If safetensors is not installed.
    """
    scratch = path.with_name(f"{path.name}.new")
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    scratch.touch()
    usual = scratch.stat().st_mode
    with named(scratch):
        require("safetensors.numpy").save_file(contiguous, scratch, metadata={ABOUT: json.dumps(dict(about))})
    scratch.chmod(usual)  # safetensors makes files that only their owner can read
    with scratch.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(scratch, path)


def read_tensors(path: Path, form: str) -> tuple[Arrays, dict[str, Any]]:
    """The arrays of a file by name, and what they are.

    Parameters
    ----------
    path : Path
        Of a file that `write_tensors` wrote.
    form : str
        What it has to hold: its ``about["format"]``.

    Raises
    ------
    DataError
        If there is no such file, it is damaged, or it holds something else.
    MissingExtra
        If safetensors is not installed.
    """
    safetensors: Any = require("safetensors")
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  it is no mapping
        about = json.loads(header.get(ABOUT, "{}"))
    except (safetensors.SafetensorError, OSError, ValueError, TypeError, RecursionError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    found = about.get("format") if isinstance(about, dict) else None
    if found != form:
        raise DataError(f"{path} holds {found or 'other tensors'}, not {form}")
    return arrays, about

"""Positions by name."""

from __future__ import annotations

from pathlib import Path

from otspec.data.files import FileSource
from otspec.data.position import Source
from otspec.data.profiles import PROFILES, ProfileSource


def open_source(name: str, seed: int = 0) -> Source:
    """Positions by the name of a profile (``llama3``, ``gemma2``) or by the path of a file.

    Parameters
    ----------
    name : str
        A profile, or a .npz or .safetensors file; see `otspec.data.FileSource`.
    seed : int
        Of a profile; a file has none.

    Raises
    ------
    DataError
        If there is neither such a profile nor such a file, or the file does not hold positions.
    """
    return ProfileSource(PROFILES[name], seed) if name in PROFILES else FileSource(Path(name), known=tuple(PROFILES))

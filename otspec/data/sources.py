"""Positions by name."""

from __future__ import annotations

from pathlib import Path

from otspec.data.files import FileSource
from otspec.data.position import Source
from otspec.data.profiles import PROFILES, ProfileSource

RECORDED = {"shipped": Path(__file__).parent / "shipped.npz"}
"""Files of recorded positions that come with the package, by name; see `benchmarks.shipped_pair.record`."""
NAMES = (*PROFILES, *RECORDED)
"""Every profile, synthetic or recorded."""


def open_source(name: str, seed: int = 0) -> Source:
    """Positions by the name of a profile or by the path of a file.

    Parameters
    ----------
    name : str
        A synthetic profile (``llama3``, ``gemma2``), a recorded one (``shipped``: real logits of the pair in
        `otspec.decode.shipped`, 256 positions), or a .npz or .safetensors file; see `otspec.data.FileSource`.
    seed : int
        Of a synthetic profile; what is recorded has none.

    Raises
    ------
    DataError
        If there is neither such a profile nor such a file, or the file does not hold positions.
    """
    if name in PROFILES:
        return ProfileSource(PROFILES[name], seed)
    if name in RECORDED:
        return FileSource(RECORDED[name], name=name)
    return FileSource(Path(name), known=NAMES)

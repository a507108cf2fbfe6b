"""Positions and recorded trees by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from otspec.data.files import FileSource
from otspec.data.position import Source
from otspec.data.profiles import PROFILES, ProfileSource
from otspec.data.recorded import TOP_FORMAT, TopSource, recorded_format
from otspec.data.trees import ARRAYS as OF_TREES
from otspec.data.trees import TreeSource
from otspec.errors import DataError

RECORDED = {name.partition(".")[0]: Path(__file__).parent / name for name in ("shipped.npz", "smollm2.safetensors")}
"""Files of recorded positions that come with the package, by name: see the pair's README, and the second's header."""
TREES = {name: Path(__file__).parent / f"{name}-trees.safetensors" for name in ("shipped", "smollm2")}
"""Recorded trees that come with the package, by name: 256 of the shipped pair, 240 of SmolLM2-135M and its drafter."""
NAMES = (*PROFILES, *RECORDED)
"""Every profile, synthetic or recorded."""


class _Own:
    """A recorded profile, which lies wherever the package does."""

    name: str

    def __reduce__(self) -> tuple[Any, ...]:
        """As the name: another machine may have the package elsewhere."""
        return open_source, (self.name,)


class OwnSource(_Own, FileSource):
    """One of whole laws."""


class OwnTopSource(_Own, TopSource):
    """One of likeliest tokens alone."""


def open_source(
    name: str | Path,
    seed: int = 0,
    *,
    target_key: str | None = None,
    draft_key: str | None = None,
    kind: str | None = None,
) -> Source:
    """Positions by the name of a profile or by the path of a file.

    Parameters
    ----------
    name : str or Path
        A synthetic profile (``llama3``, ``gemma2``), a recorded one (``shipped``: real logits of the pair in
        `otspec.decode.shipped`, 256 positions; ``smollm2``: the 256 likeliest tokens of SmolLM2-135M and an EAGLE-style
        draft layer of its own, 1024 positions), or a file, .npz, .npy, .safetensors or .pt; see
        `otspec.data.FileSource.open`.
    seed : int
        Of a synthetic profile; what is recorded has none.
    target_key, draft_key, kind : str, optional
        Which arrays of a file to read, and whether they hold ``"logits"`` or ``"probs"``; see `FileSource.open`.

    Raises
    ------
    DataError
        If there is neither such a profile nor such a file, the file does not hold positions, or arrays of a profile are
        requested, which has none.
    MissingExtra
        If reading the file takes torch, and torch is missing.

    Examples
    --------
    >>> from otspec.data import open_source
    >>> source = open_source("shipped")  # or llama3, gemma2, or a file of yours
    >>> source.position(0).problem(n=3, top_k=100)
    <Problem: 2048 tokens, <IID: n = 3 of 100 tokens, V = 2048; draw with sample(rng)>; solve it with otspec.solve>
    """
    selected = any(setting is not None for setting in (target_key, draft_key, kind))
    if isinstance(name, str) and name in NAMES and selected:
        raise DataError(f"{name} is a profile, which has no target_key, draft_key or kind; these are for files")
    if isinstance(name, str) and name in PROFILES:
        return ProfileSource(PROFILES[name], seed)
    if isinstance(name, str) and name in RECORDED:
        file = RECORDED[name]
        return OwnTopSource(file, name) if recorded_format(file) == TOP_FORMAT else OwnSource.open(file, name=name)
    held = recorded_format(name)
    if held in OF_TREES:
        raise DataError(f"{name} holds {held}, not positions; otspec bench paths compares rules on them")
    if held == TOP_FORMAT and not selected:
        return TopSource(Path(name))
    return FileSource.open(name, profiles=NAMES, target_key=target_key, draft_key=draft_key, kind=kind)


def open_trees(name: str) -> dict[str, TreeSource]:
    """Recorded trees by the name of a recording of the package, or by the path of a file or of a folder of files.

    Parameters
    ----------
    name : str
        ``shipped`` or ``smollm2`` (`TREES`), or a path.

    Returns
    -------
    dict
        From the path of each, or the name, to the trees.

    Raises
    ------
    DataError
        If there are none, or a file is damaged.

    Examples
    --------
    >>> from otspec.data import open_trees
    >>> {name: (len(trees), trees.paths, trees.depth) for name, trees in open_trees("shipped").items()}
    {'shipped': (256, 4, 4)}
    """
    if name in TREES:
        return {name: TreeSource(TREES[name], name)}
    if not Path(name).is_dir():
        return {name: TreeSource(name)}
    found = {str(path): TreeSource(path) for path in sorted(Path(name).iterdir()) if recorded_format(path) in OF_TREES}
    if not found:
        raise DataError(
            f"{name} holds no recorded trees; record some with otspec record --paths K --depth L --out FILE"
        )
    return found

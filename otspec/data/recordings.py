"""Recorded trees by name: those that come with the package, files, and folders of files.

A recording is the trees of one pair of models, a column of the verifiers' table: a file of `otspec record`, or the
parts that a live engine leaves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from otspec.data.files import file_identity
from otspec.data.position import check_index
from otspec.data.recorded import recorded_format
from otspec.data.trees import ARRAYS, RecordedTree, TreeSource
from otspec.errors import DataError

TREES = {name: Path(__file__).parent / f"{name}-trees.safetensors" for name in ("shipped", "smollm2")}
"""Recorded trees that come with the package, by name: 256 of the shipped pair, 240 of SmolLM2-135M and its drafter."""
COUNTS = ("positions", "prompts")
"""What the headers of parts of one recording differ in."""


class JoinedTrees(TreeSource):
    """The trees of several files as those of one, in the order of the files.

    Parameters
    ----------
    parts : sequence of TreeSource
        At least one; their headers differ in `COUNTS` alone.
    name : str
    """

    def __init__(self, parts: Sequence[TreeSource], name: str) -> None:
        first = parts[0]
        self.path, self.name, self._parts = first.path.parent, name, parts
        self.vocab, self.paths, self.depth = first.vocab, first.paths, first.depth
        prompts = [int(part.about["prompts"]["count"]) for part in parts]
        self._first_prompts = list(accumulate(prompts, initial=0))
        self._first_trees = list(accumulate(map(len, parts), initial=0))
        self.about = {**first.about, "positions": len(self), "prompts": {"count": sum(prompts)}}

    @property
    def identity(self) -> Mapping[str, object]:
        """Name of the recording, and size and digest of all of its files."""
        return {**file_identity(*(part.path for part in self._parts)), "file": self.name}

    def __len__(self) -> int:
        return self._first_trees[-1]

    def _place(self, index: int) -> tuple[int, int]:
        """The part that a tree is in, and its index there."""
        index = check_index(index, self, "tree")
        part = next(at for at, end in enumerate(self._first_trees[1:]) if index < end)
        return part, index - self._first_trees[part]

    def prompt(self, index: int) -> int:
        """The number of the prompt that a tree follows: parts have none in common."""
        part, within = self._place(index)
        return self._first_prompts[part] + self._parts[part].prompt(within)

    def tree(self, index: int) -> RecordedTree:
        """The tree of that index; all else is as of `TreeSource.tree`."""
        part, within = self._place(index)
        return self._parts[part].tree(within)


def open_trees(name: str) -> dict[str, TreeSource]:
    """Recorded trees by the name of a recording of the package, or by the path of a file or of a folder of files.

    Parameters
    ----------
    name : str
        ``shipped`` or ``smollm2`` (`TREES`), or a path.  In a folder, files that say that they are parts of one
        recording, as a live engine leaves them, are one source.

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
    return _of_folder(Path(name)) if Path(name).is_dir() else {name: TreeSource(name)}


def _of_folder(folder: Path) -> dict[str, TreeSource]:
    groups: dict[str, list[TreeSource]] = {}
    for path in sorted(folder.iterdir()):
        if recorded_format(path) in ARRAYS:
            trees = TreeSource(path)
            same = {field: value for field, value in trees.about.items() if field not in COUNTS}
            groups.setdefault(json.dumps(same, sort_keys=True) if "recording" in same else str(path), []).append(trees)
    if not groups:
        raise DataError(
            f"{folder} holds no recorded trees; record some with otspec record --paths K --depth L --out FILE"
        )
    return {str(parts[0].path): _joined(parts) for parts in groups.values()}


def _joined(parts: Sequence[TreeSource]) -> TreeSource:
    """One source of all parts of a recording, called as they say."""
    name = parts[0].about.get("recording")
    return parts[0] if name is None else JoinedTrees(parts, str(name))

"""Files of recorded trees: drafted paths of language models with both models' laws at the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from otspec.data.files import file_identity
from otspec.data.formats import StoredArray, read, safetensors_about
from otspec.data.position import check_index
from otspec.data.recorded import of_schema
from otspec.errors import DataError, ProblemError
from otspec.laws import FloatArray, IntArray
from otspec.logits import law_from_logits

TREES_FORMAT, TOP_TREES_FORMAT = "recorded trees", "recorded trees, likeliest tokens"
"""What a file holds, by its header."""
TOPOLOGY = ("paths", "nodes")
ARRAYS = {
    TREES_FORMAT: (*TOPOLOGY, "target_logits", "draft_logits"),
    TOP_TREES_FORMAT: (*TOPOLOGY, "tokens", "target_top", "draft_top", "target_rest"),
}
"""What such a file has."""
NONE = -1
"""No token."""


@dataclass(frozen=True, eq=False)
class RecordedTree:
    """K independent drafted paths of L tokens, and the laws after their prefixes: `target` and `draft` look them up.

    ``otspec.verification.Tree.of(one.paths, one.target, one.draft)`` is the tree that verifiers take.  Tokens are
    positions in the laws.  Where a file has the likeliest drafts alone, the laws of a node are over these and, last,
    one token that stands for all others, which cannot be drafted.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.data import RecordedTree
    >>> from otspec.verification import Tree
    >>> one = RecordedTree(
    ...     paths=np.array([[0], [1]]),
    ...     nodes=np.array([[0, 1], [0, 2]]),
    ...     target_laws=np.array([[0.7, 0.3], [0.5, 0.5], [0.1, 0.9]]),
    ...     draft_laws=np.array([[0.4, 0.6]]),
    ...     tokens=np.array([[0, 1]] * 3),
    ... )
    >>> Tree.of(one.paths, one.target, one.draft).size
    3
    """

    paths: IntArray
    """Shape (K, L): the drafted tokens."""
    nodes: IntArray
    """Shape (K, L + 1): the number of each path's prefixes of 0 to L tokens."""
    target_laws: FloatArray
    """Shape (N, V): the target's law after each prefix."""
    draft_laws: FloatArray
    """Shape (inner, V): the law that the tokens after each prefix of less than L tokens were drawn from."""
    tokens: IntArray
    """Shape (N, V): which tokens of the vocabulary the laws of a prefix are over; -1 for all others together."""

    def target(self, prefix: Sequence[int]) -> FloatArray:
        """The target's law after a drafted prefix, shape (V,).

        Raises
        ------
        ProblemError
            If the prefix was not drafted.
        """
        law: FloatArray = self.target_laws[self.node(prefix)]
        return law

    def draft(self, prefix: Sequence[int]) -> FloatArray:
        """The law that tokens after a drafted prefix of less than L tokens were drawn from, shape (V,).

        Raises
        ------
        ProblemError
            If the prefix was not drafted, or nothing after it.
        """
        node = self.node(prefix)
        if node >= len(self.draft_laws):
            raise ProblemError(f"nothing was drafted after {tuple(prefix)}, a whole path; it has no draft law")
        law: FloatArray = self.draft_laws[node]
        return law

    def node(self, prefix: Sequence[int]) -> int:
        """The number of a drafted prefix: 0 for the empty one, parents before their children.

        Raises
        ------
        ProblemError
            If the prefix was not drafted.
        """
        length = len(prefix)
        begin = [
            at for at, path in enumerate(self.paths.tolist()) if length <= len(path) and path[:length] == list(prefix)
        ]
        if not begin:
            raise ProblemError(f"no path begins with {tuple(prefix)}; laws are recorded after drafted prefixes alone")
        return int(self.nodes[begin[0], length])


class TreeSource:
    """Trees of a file that `otspec record --paths K --depth L` wrote.

    Parameters
    ----------
    path : Path or str
    name : str, optional
        Of the source; that of the file by default.

    Raises
    ------
    DataError
        If the file is missing, of another format or damaged, or holds something else.
    """

    about: Mapping[str, Any]
    """The contents of the header: models, prompts, settings, versions, the error of storing."""
    vocab: int
    """Number of tokens V."""
    paths: int
    """Drafted paths K of a tree."""
    depth: int
    """Tokens L of a path."""

    def __init__(self, path: Path | str, name: str | None = None) -> None:
        if not isinstance(path, str | Path):
            raise DataError(f"the file is {path!r}; pass its path")
        self.path = path = Path(path)
        self.name = path.name if name is None else name
        if not path.is_file():
            raise DataError(f"there is no file {path}")
        self.about = of_schema(path, safetensors_about(path)) if path.suffix.lower() == ".safetensors" else {}
        self._arrays = _arrays_of(path, str(self.about.get("format") or "no trees of ours"))
        try:
            self.vocab, self.paths, self.depth = (int(self.about[name]) for name in ("vocab", "paths", "depth"))
            self._prompts = int(self.about["prompts"]["count"])
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path} does not state the shape of its trees ({error!r}); record it anew") from error
        nodes, paths = (self._arrays[name].shape[1:] for name in ("nodes", "paths"))
        if (nodes, paths) != ((self.paths, self.depth + 1), (self.paths, self.depth)):
            raise DataError(
                f"{path} states {self.paths} paths of {self.depth} tokens, and has nodes of shape {nodes} and paths "
                f"of shape {paths} a tree; record it anew"
            )

    @property
    def over_vocabulary(self) -> bool:
        """Whether laws are over the whole vocabulary, and not over the likeliest drafts and the mass of the rest."""
        return bool(self.about["format"] == TREES_FORMAT)

    @property
    def identity(self) -> Mapping[str, object]:
        """Name, size and digest of the file."""
        return file_identity(self.path)

    def __len__(self) -> int:
        return self._arrays["paths"].shape[0]

    def prompt(self, index: int) -> int:
        """The number of the prompt that a tree follows; texts of one prompt are not independent."""
        return check_index(index, self, "tree") % self._prompts

    def tree(self, index: int) -> RecordedTree:
        """The tree of that index.

        Raises
        ------
        DataError
            If the index is not in 0 .. len - 1, or what the file holds there is no drafted tree.
        """
        index = check_index(index, self, "tree")
        paths, nodes = (np.asarray(self._arrays[name].values[index]).astype(np.int64) for name in TOPOLOGY)
        where = f"{self.path}, tree {index}"
        _check_topology(where, paths, nodes)
        size, inner = int(nodes.max()) + 1, int(nodes[:, :-1].max()) + 1
        try:
            laws = self._laws_over_vocabulary if self.over_vocabulary else self._laws_of_likeliest
            tokens, target, draft = laws(index, size, inner)
        except ProblemError as error:
            raise DataError(f"{where}: {error}; record it anew") from error
        drafted = (tokens[nodes[:, :-1]] == paths[:, :, None]) & (draft[nodes[:, :-1]] > 0)
        if not drafted.any(axis=2).all():
            path, level = np.argwhere(~drafted.any(axis=2))[0]
            raise DataError(
                f"{where}: token {level} of path {path} is {paths[path, level]}, which cannot have been drafted there; "
                "record it anew"
            )
        return RecordedTree(drafted.argmax(axis=2), nodes, target, draft, tokens)

    def _laws_over_vocabulary(self, index: int, size: int, inner: int) -> tuple[IntArray, FloatArray, FloatArray]:
        target, draft = (
            np.array([law_from_logits(f"{name}[{node}]", logits) for node, logits in enumerate(rows)])
            for name, rows in (
                ("target_logits", self._rows("target_logits", index, size)),
                ("draft_logits", self._rows("draft_logits", index, inner)),
            )
        )
        return np.broadcast_to(np.arange(self.vocab), target.shape), target, draft

    def _laws_of_likeliest(self, index: int, size: int, inner: int) -> tuple[IntArray, FloatArray, FloatArray]:
        stored = np.asarray(self._arrays["tokens"].values[index, :inner]).astype(np.int64)
        known = stored.shape[1]
        tokens = np.full((size, known + 1), NONE)
        target, draft = np.zeros((size, known + 1)), np.zeros((inner, known + 1))
        target[inner:, known] = 1.0  # nothing is drafted after whole paths, so that all tokens are others
        tops = [self._rows(name, index, inner) for name in ("target_top", "draft_top")]
        rests = self._rows("target_rest", index, inner)
        for node, (mine, (p, q, rest)) in enumerate(zip(stored, zip(*tops, rests, strict=True), strict=True)):
            if np.unique(mine).size != known or not ((mine >= 0) & (mine < self.vocab)).all():
                raise ProblemError(f"tokens[{node}] are not {known} different ones of {self.vocab}")
            masses = np.append(np.exp(p), rest)
            if not (np.isfinite(masses).all() and rest >= 0 and masses.sum() > 0):
                raise ProblemError(f"target_top[{node}] and target_rest[{node}] = {rest} make no law")
            tokens[node, :known] = mine
            target[node] = masses / masses.sum()
            draft[node, :known] = law_from_logits(f"draft_top[{node}]", q)
        return tokens, target, draft

    def _rows(self, name: str, index: int, count: int) -> FloatArray:
        """The first rows of a tree, as float64."""
        stored = self._arrays[name]
        if stored.decode is None or stored.values.ndim < 2 or stored.values.shape[1] < count:
            raise ProblemError(f"{name} is {stored.kind} of shape {stored.shape}, and the tree has {count} laws")
        return stored.decode(stored.values[index, :count])


def _arrays_of(path: Path, found: str) -> dict[str, StoredArray]:
    """The arrays of a file of trees, by name.

    Parameters
    ----------
    path : Path
    found : str
        The format that the header names.

    Raises
    ------
    DataError
        If it is none of `ARRAYS`, or the file is damaged or lacks an array.
    """
    names = ARRAYS.get(found)
    if names is None:
        raise DataError(f"{path} holds {found}; record trees with otspec record --paths K --depth L --out FILE")
    arrays = {name: array for name, array in read(path, names).items() if array is not None and name in names}
    if lacking := [name for name in names if name not in arrays]:
        raise DataError(f"{path} lacks {', '.join(lacking)}; record it anew")
    return arrays


def _check_topology(where: str, paths: IntArray, nodes: IntArray) -> None:
    """Raise unless every prefix has a number of its own, those of less than L tokens the first ones."""
    numbers: dict[tuple[int, ...], int] = {}
    for path, own in zip(paths.tolist(), nodes.tolist(), strict=True):
        for length, node in enumerate(own):
            if numbers.setdefault(tuple(path[:length]), node) != node:
                raise DataError(f"{where}: its prefix {tuple(path[:length])} has two numbers; record it anew")
    inner = [node for prefix, node in numbers.items() if len(prefix) < paths.shape[1]]
    if sorted(numbers.values()) != list(range(len(numbers))) or max(inner) >= len(inner) or numbers[()] != 0:
        raise DataError(f"{where}: its prefixes are not numbered from 0, those of whole paths last; record it anew")

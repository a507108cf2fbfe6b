"""Users' own positions, from files of two arrays: which they are, whether they fit together, and what they hold."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from otspec.data.formats import STACKED, StoredArray, read
from otspec.data.position import Position, check_index
from otspec.errors import DataError, ProblemError
from otspec.laws import FloatArray, as_law
from otspec.writing import named


class FileSource:
    """Positions of a file that holds target_logits and draft_logits, or target_probs and draft_probs.

    Both arrays have shape (positions, V) and any floating-point type, bfloat16 and float8 included.  Probabilities and
    logits are checked when their position is read.  `FileSource.open` reads a file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from otspec.data import FileSource
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/mine.npz", p=[[0.5, 0.3, 0.2]], q=[[0.2, 0.3, 0.5]])  # one position of three tokens
    ...     source = FileSource.open(f"{folder}/mine.npz", target_key="p", draft_key="q")
    ...     print(len(source), source.vocab, source.position(0).problem(n=2).p)
    1 3 [0.5 0.3 0.2]
    """

    path: Path
    """Of the file."""
    name: str
    vocab: int
    """Number of tokens V."""
    kind: str
    """``"logits"`` or ``"probs"``: what the arrays hold."""

    def __init__(self, path: Path, selection: Selection, name: str | None) -> None:
        self.path, self.name = path, path.name if name is None else name
        self._selection = selection
        self._names, self._target, self._draft, self.kind = read_pair(path, selection)
        self.vocab = self._target.shape[1]

    @classmethod
    def open(
        cls,
        path: Path | str,
        profiles: tuple[str, ...] = (),
        name: str | None = None,
        *,
        target_key: str | None = None,
        draft_key: str | None = None,
        kind: str | None = None,
    ) -> Self:
        """Read a file.

        Parameters
        ----------
        path : Path or str
            A .npz archive; a .safetensors file (which takes torch for float8 alone); a .pt or .pth file of tensors
            (which takes torch, and is loaded with weights_only); or a .npy file, of one array of shape
            (2, positions, V), the target first, or of one of the two arrays by its name, as target_logits.npy, with the
            other, draft_logits.npy, beside.
        profiles : tuple of str
            Names of profiles, for the error when there is no such file.
        name : str, optional
            Of the source; that of the file by default.
        target_key, draft_key : str, optional
            Names of the two arrays, where they have others.
        kind : str, optional
            ``"logits"`` or ``"probs"``: what the arrays hold.  By default their names decide, or else the first
            position: values in [0, 1] that sum to 1 are probabilities.

        Raises
        ------
        DataError
            If the file is missing, of another format, damaged, or without such arrays.
        MissingExtra
            If reading it takes torch, and torch is missing.
        """
        if not isinstance(path, str | Path):
            raise DataError(f"the file is {path!r}; pass its path")
        selection = Selection(target_key, draft_key, kind)
        if not Path(path).is_file():
            others = f", and no profile has that name (known: {', '.join(profiles)})" if profiles else ""
            raise DataError(f"there is no file {Path(path)}{others}")
        return cls(Path(path), selection, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """As the path: what is sent to other processes with every task does not grow with the file."""
        return reopened, (type(self).open, *placed(self.path), {"name": self.name, **vars(self._selection)})

    @property
    def identity(self) -> Mapping[str, object]:
        """Name, size and digest of the file, or of both; and the names of its arrays where they were selected."""
        names, files = self._names, [self.path]
        if self.path.suffix.lower() == ".npy" and names != STACKED:
            files = [self.path.with_name(f"{name}.npy") for name in names]
        selected = {} if self._selection == Selection() else {"arrays": names, "kind": self.kind}
        return {**file_identity(*files), "file": self.path.name, **selected}

    def __len__(self) -> int:
        return self._target.shape[0]

    def position(self, index: int) -> Position:
        """The position of that index.

        Raises
        ------
        DataError
            If the index is not in 0 .. len - 1, or the row holds no law.
        """
        index = check_index(index, self)
        return Position(*(self._logits(name, index) for name in self._names))

    def _logits(self, name: str, index: int) -> FloatArray:
        array = self._target if name == self._names[0] else self._draft
        where, values = f"{self.path}: {name}[{index}]", array.row(index)
        return _log_law(where, values, array.kind) if self.kind == PROBS else _checked_logits(where, values)


def placed(path: Path) -> tuple[Path, int]:
    """Where a file is, for a process that works in another folder, and how many bytes it has."""
    return path.resolve(), path.stat().st_size


def reopened(open_: Callable[..., Any], path: Path, size: int, settings: Mapping[str, Any]) -> Any:
    """A source in another process than the one that opened it.

    Parameters
    ----------
    open_ : callable
        Makes the source from the path, called as ``open_(path, **settings)``.
    path, size : Path, int
        As `placed` gave them.
    settings : mapping
        The other arguments.

    Raises
    ------
    DataError
        If the file is not there, or of another size.
    """
    if not path.is_file() or path.stat().st_size != size:
        raise DataError(
            f"{path} is not a file of {size:,} bytes here, as where the run began; workers need the same files under "
            "the same path"
        )
    return open_(path, **settings)


def file_identity(*files: Path) -> dict[str, Any]:
    """Name of the first file, and size and digest of all."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return {"file": files[0].name, "bytes": sum(path.stat().st_size for path in files), "sha256": digest.hexdigest()}


def write_npz(path: Path, positions: Iterable[Position]) -> None:
    """Save positions as float32 logits, in the format that `FileSource` reads.

    Parameters
    ----------
    path : Path
        Of the .npz file to write.
    positions : iterable of Position
        At least one, all of one vocabulary.

    Raises
    ------
    DataError
        If there are none.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from otspec.data import FileSource, Position, write_npz
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_npz(Path(folder) / "one.npz", [Position(np.array([2.0, 0.0]), np.array([1.0, 0.5]))])
    ...     print(FileSource.open(Path(folder) / "one.npz").position(0).draft_logits)
    [1.  0.5]
    """
    logits = [
        (position.target_logits.astype(np.float32), position.draft_logits.astype(np.float32)) for position in positions
    ]
    if not logits:
        raise DataError(f"there are no positions to save as {path}")
    target, draft = zip(*logits, strict=True)
    with named(path):
        np.savez(path, target_logits=np.array(target), draft_logits=np.array(draft))


def _log_law(where: str, values: FloatArray, kind: str) -> FloatArray:
    try:
        law = as_law(where, values)
    except ProblemError as error:
        rough = bool((values >= 0).all()) and abs(values.sum() - 1) <= ROUGH
        hint = f" They are {kind}: take the softmax in float32, or save logits." if rough else ""
        raise DataError(f"{error}{hint}") from error
    with np.errstate(divide="ignore"):
        return np.log(law)


def _checked_logits(where: str, values: FloatArray) -> FloatArray:
    wrong = np.isnan(values) | np.isposinf(values)
    if wrong.any():
        token = int(wrong.argmax())
        raise DataError(f"{where}[{token}] is {values[token]}; logits are finite, or -inf for a masked token")
    if np.isneginf(values).all():
        raise DataError(f"{where} masks every token; at least one logit must be finite")
    return values


KINDS = (("target_logits", "draft_logits"), ("target_probs", "draft_probs"))
"""Pairs of array names that a file may hold, each of shape (positions, V)."""

LOGITS, PROBS = "logits", "probs"

ROUGH = 0.02
"""How far off 1 a total may be and still be taken for that of probabilities in half precision."""


@dataclass(frozen=True)
class Selection:
    """Which arrays of a file to read, where their names do not show it."""

    target_key: str | None = None
    """Name of the target's array; None for those of `KINDS`."""
    draft_key: str | None = None
    """Name of the draft model's, likewise."""
    kind: str | None = None
    """`LOGITS` or `PROBS`; None to find out."""

    def __post_init__(self) -> None:
        """Check the names and the kind.

        Raises
        ------
        DataError
            If one name is missing or no text, or the kind is neither.
        """
        keys = [key for key in (self.target_key, self.draft_key) if key is not None]
        if len(keys) == 1 or not all(isinstance(key, str) for key in keys):
            raise DataError(
                f"target_key is {self.target_key!r} and draft_key is {self.draft_key!r}; pass both names, or neither"
            )
        if self.kind is not None and not (isinstance(self.kind, str) and self.kind in (LOGITS, PROBS)):
            raise DataError(f"kind is {self.kind!r}; known: {LOGITS}, {PROBS}")

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Names of target and draft to look for, the first that are there."""
        if self.target_key is None or self.draft_key is None:
            return KINDS
        return ((self.target_key, self.draft_key),)

    def names_in(self, path: Path, arrays: Mapping[str, StoredArray | None]) -> tuple[str, str]:
        """Names of target and draft among the arrays of a file.

        Raises
        ------
        DataError
            If they are not there.
        """
        named = self.target_key is not None
        for pair in self.pairs if named else (*self.pairs, STACKED):
            if all(name in arrays for name in pair):
                return pair
        needed = " or ".join(f"{target} with {draft}" for target, draft in self.pairs)
        way_out = "" if named else "; arrays of other names? Name them in target_key and draft_key"
        raise DataError(f"{path} holds {', '.join(arrays) or 'no arrays'}; positions need {needed}{way_out}")


def read_pair(path: Path, selection: Selection) -> tuple[tuple[str, str], StoredArray, StoredArray, str]:
    """Names of target and draft in a file, their arrays of shape (positions, V), and what these hold.

    The arrays are checked but for their values.

    Raises
    ------
    DataError
        If the file is of another format, damaged, or without such arrays.
    MissingExtra
        If reading it takes torch, and torch is missing.
    """
    arrays = read(path, [name for pair in selection.pairs for name in pair])
    names = selection.names_in(path, arrays)
    target, draft = (_checked(path, name, arrays[name]) for name in names)
    if target.shape != draft.shape:
        raise DataError(f"{path}: {names[0]} has shape {target.shape}, {names[1]} {draft.shape}; both need one shape")
    kind = selection.kind or _kind_by_name(names) or _kind_by_content(path, names, (target, draft))
    return names, target, draft, kind


def _checked(path: Path, name: str, array: StoredArray | None) -> StoredArray:
    """The array, if it holds rows of floating-point numbers."""
    if array is None or len(array.shape) != 2 or 0 in array.shape or array.decode is None:
        kind, shape = ("nothing", ()) if array is None else (array.kind, array.shape)
        way_out = "; reshape it to (-1, V)" if len(shape) > 2 else ""
        raise DataError(f"{path}: {name} is {kind} of shape {shape}; need floats, (positions, V){way_out}")
    return array


def _kind_by_name(names: tuple[str, str]) -> str | None:
    """What the arrays hold, by their names; None where these mean neither kind, or both."""
    words = {"prob": PROBS, "logit": LOGITS}
    found = {kind for word, kind in words.items() if all(word in name.lower() for name in names)}
    return found.pop() if len(found) == 1 else None


def _kind_by_content(path: Path, names: tuple[str, str], arrays: tuple[StoredArray, StoredArray]) -> str:
    """What the arrays hold, by the first position: values in [0, 1] that sum to 1 are probabilities."""
    seen = set()
    for array in arrays:
        row = array.row(0)
        within = bool(((row >= 0) & (row <= 1)).all())
        seen.add((PROBS if abs(row.sum() - 1) <= ROUGH else "either") if within else LOGITS)
    if len(seen) > 1 or "either" in seen:
        raise DataError(
            f"{path}: cannot tell whether {' and '.join(names)} hold logits or probabilities; pass "
            f"kind={LOGITS!r} or kind={PROBS!r}"
        )
    return seen.pop()

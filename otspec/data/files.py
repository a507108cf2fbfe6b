"""Users' own positions, from files of arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from otspec.data.formats import STACKED, Stored, read
from otspec.data.position import Position, check_index
from otspec.errors import DataError, ProblemError
from otspec.laws import FloatArray, as_law

KINDS = (("target_logits", "draft_logits"), ("target_probs", "draft_probs"))
"""Pairs of array names that a file may hold, each of shape (positions, V)."""

LOGITS, PROBS = "logits", "probs"

ROUGH = 0.02
"""How far probabilities of half precision may be off 1 in total, and still be told from everything else."""


class FileSource:
    """Positions of a file that holds target_logits and draft_logits, or target_probs and draft_probs.

    Both arrays have shape (positions, V) and any floating-point type, bfloat16 and float8 included.  Probabilities and
    logits are checked when their position is read.

    Parameters
    ----------
    path : Path or str
        A .npz archive; a .safetensors file (which takes no other package); a .pt or .pth file of tensors (which takes
        torch, and is loaded with weights_only); or a .npy file, of one array of shape (2, positions, V), the target
        first, or of one of the two arrays by its name, as target_logits.npy, with the other, draft_logits.npy, beside.
    known : tuple of str
        Names of profiles, for the error when there is no such file.
    name : str, optional
        Of the source; that of the file by default.
    target_key, draft_key : str, optional
        Names of the two arrays, where they have others.
    kind : str, optional
        ``"logits"`` or ``"probs"``: what the arrays hold.  By default their names tell, or else the first position:
        values in [0, 1] that sum to 1 are probabilities.

    Raises
    ------
    DataError
        If the file is missing, of another format, damaged, or without such arrays.
    MissingExtra
        If it takes torch to read, and torch is missing.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from otspec.data import FileSource
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/mine.npz", p=[[0.5, 0.3, 0.2]], q=[[0.2, 0.3, 0.5]])  # one position of three tokens
    ...     source = FileSource(f"{folder}/mine.npz", target_key="p", draft_key="q")
    ...     print(len(source), source.vocab, source.position(0).problem(n=2).p)
    1 3 [0.5 0.3 0.2]
    """

    def __init__(
        self,
        path: Path | str,
        known: tuple[str, ...] = (),
        name: str | None = None,
        *,
        target_key: str | None = None,
        draft_key: str | None = None,
        kind: str | None = None,
    ) -> None:
        if not isinstance(path, str | Path):
            raise DataError(f"the file is {path!r}; pass its path")
        self.path = path = Path(path)
        self.name = path.name if name is None else name
        keys = [key for key in (target_key, draft_key) if key is not None]
        if len(keys) == 1 or not all(isinstance(key, str) for key in keys):
            raise DataError(f"target_key is {target_key!r} and draft_key is {draft_key!r}; pass both names, or neither")
        if kind is not None and not (isinstance(kind, str) and kind in (LOGITS, PROBS)):
            raise DataError(f"kind is {kind!r}; known: {LOGITS}, {PROBS}")
        if not path.is_file():
            profiles = f", and no profile has that name (known: {', '.join(known)})" if known else ""
            raise DataError(f"there is no file {path}{profiles}")
        pairs = KINDS if target_key is None or draft_key is None else ((target_key, draft_key),)
        arrays = read(path, [name for pair in pairs for name in pair])
        self._names = _pair(path, arrays, pairs, mapped=target_key is not None)
        self._target, self._draft = (_checked(path, name, arrays[name]) for name in self._names)
        if self._target.shape != self._draft.shape:
            (target, draft), shapes = self._names, (self._target.shape, self._draft.shape)
            raise DataError(f"{path}: {target} has shape {shapes[0]}, {draft} {shapes[1]}; both need one shape")
        self.vocab = self._target.shape[1]
        self.kind = kind or self._named_kind or self._seen_kind()
        self._asked = {} if target_key is None and kind is None else {"arrays": self._names, "kind": self.kind}
        self._settings = {"name": self.name, "target_key": target_key, "draft_key": draft_key, "kind": kind}

    def __reduce__(self) -> tuple[Any, ...]:
        """As the path: what is sent to other processes with every task does not grow with the file."""
        return reopened, (type(self), *placed(self.path), self._settings)

    @property
    def identity(self) -> Mapping[str, object]:
        """Name, size and digest of the file, or of both; and the names of its arrays where they were asked for."""
        files = [self.path]
        if self.path.suffix.lower() == ".npy" and self._names != STACKED:
            files = [self.path.with_name(f"{name}.npy") for name in self._names]
        return {**file_identity(*files), "file": self.path.name, **self._asked}

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
        values = array.row(index)
        where = f"{self.path}: {name}[{index}]"
        return _log_law(where, values, array.kind) if self.kind == PROBS else _checked_logits(where, values)

    @property
    def _named_kind(self) -> str | None:
        """What the names of the arrays say that they hold."""
        words = {"prob": PROBS, "logit": LOGITS}
        said = {kind for word, kind in words.items() if all(word in name.lower() for name in self._names)}
        return said.pop() if len(said) == 1 else None

    def _seen_kind(self) -> str:
        """What the first position looks like."""
        seen = set()
        for array in (self._target, self._draft):
            row = array.row(0)
            within = bool(((row >= 0) & (row <= 1)).all())
            seen.add((PROBS if abs(row.sum() - 1) <= ROUGH else "either") if within else LOGITS)
        if len(seen) > 1 or "either" in seen:
            raise DataError(
                f"{self.path}: cannot tell whether {' and '.join(self._names)} hold logits or probabilities; pass "
                f"kind={LOGITS!r} or kind={PROBS!r}"
            )
        return seen.pop()


def placed(path: Path) -> tuple[Path, int]:
    """Where a file is, for whoever works in another folder, and its bytes."""
    return path.resolve(), path.stat().st_size


def reopened(kind: Callable[..., Any], path: Path, size: int, settings: Mapping[str, Any]) -> Any:
    """A source in another process than the one that opened it.

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
    return kind(path, **settings)


def file_identity(*files: Path) -> dict[str, object]:
    """Name of the first file, and size and digest of all."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return {"file": files[0].name, "bytes": sum(path.stat().st_size for path in files), "sha256": digest.hexdigest()}


def write_npz(path: Path, positions: Iterable[Position]) -> None:
    """Save positions as float32 logits, in the format that `FileSource` reads.

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
    ...     print(FileSource(Path(folder) / "one.npz").position(0).draft_logits)
    [1.  0.5]
    """
    logits = [
        (position.target_logits.astype(np.float32), position.draft_logits.astype(np.float32)) for position in positions
    ]
    if not logits:
        raise DataError(f"there are no positions to save as {path}")
    target, draft = zip(*logits, strict=True)
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


def _pair(
    path: Path, arrays: Mapping[str, Stored | None], pairs: tuple[tuple[str, str], ...], mapped: bool
) -> tuple[str, str]:
    """Names of target and draft in the file."""
    for pair in pairs if mapped else (*pairs, STACKED):
        if all(name in arrays for name in pair):
            return pair
    wanted = " or ".join(f"{target} with {draft}" for target, draft in pairs)
    ways = "" if mapped else "; arrays of other names? Say which in target_key and draft_key"
    raise DataError(f"{path} holds {', '.join(arrays) or 'no arrays'}; positions need {wanted}{ways}")


def _checked(path: Path, name: str, array: Stored | None) -> Stored:
    if array is None or len(array.shape) != 2 or 0 in array.shape or array.decode is None:
        kind, shape = ("nothing", ()) if array is None else (array.kind, array.shape)
        ways = "; reshape it to (-1, V)" if len(shape) > 2 else ""
        raise DataError(f"{path}: {name} is {kind} of shape {shape}; need floats, (positions, V){ways}")
    return array

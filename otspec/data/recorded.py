"""Files of recorded positions: written row by row, and read where only the likeliest tokens were recorded."""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from otspec.data.files import file_identity, placed, reopened
from otspec.data.formats import read, safetensors_about
from otspec.data.position import Position, check_index
from otspec.errors import DataError, ProblemError
from otspec.laws import FloatArray
from otspec.problem import Problem
from otspec.writing import named, write_whole

RECORDED_FORMAT, TOP_FORMAT = "recorded positions", "recorded positions, likeliest tokens"
"""What a file holds, by its header."""
SCHEMA = 1
"""The version of headers, and of what the benchmarks write; files from before it have none."""
WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I32": 4}
"""Bytes of an entry."""
ROOM = 4096
"""Bytes of the header for what is only known at the end."""
TOP_ARRAYS = ("tokens", "target_top", "draft_top", "target_rest", "draft_rest")


class Tensor(NamedTuple):
    """A tensor of a file."""

    kind: str
    """Its type, a key of `WIDTHS`."""
    shape: tuple[int, ...]
    """The first dimension is of the rows."""

    @property
    def row(self) -> int:
        """Bytes of a row."""
        return WIDTHS[self.kind] * math.prod(self.shape[1:])


class PositionFile:
    """A safetensors file that is filled row by row, in any order, by a process that may be killed at any time.

    Until `finish` there are PATH.part, which holds the rows, and PATH.state, which records what has been done.

    Parameters
    ----------
    path : Path
        Of the file to be.
    layout : mapping of str to Tensor
    about : mapping
        What makes a recording this one and no other.

    Raises
    ------
    DataError
        If what is there belongs to another recording; the message names the field.
    """

    state: dict[str, Any]
    """The last argument of `keep`, in this process or an earlier one; empty before."""

    def __init__(self, path: Path, layout: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
        self._path, self._layout = path, layout
        self._part, self._state = (path.with_name(f"{path.name}.{end}") for end in ("part", "state"))
        self._about = json.loads(json.dumps(about))
        first = 0
        self._first: dict[str, int] = {}
        for name, tensor in sorted(layout.items(), key=lambda item: -WIDTHS[item[1].kind]):  # so that all are aligned
            self._first[name] = first
            first += tensor.shape[0] * tensor.row
        self._size = -(-(len(self._header(self._about)) + ROOM) // 8) * 8  # of the header
        self.state = {}
        if self._state.is_file() and self._part.is_file():
            self.state = self._earlier()
        self._file: IO[bytes] = self._part.open("r+b" if self.state else "w+b")
        self._file.truncate(8 + self._size + first)

    def __enter__(self) -> PositionFile:
        return self

    def __exit__(self, *_: object) -> None:
        with named(self._part):
            self._file.close()

    def _earlier(self) -> dict[str, Any]:
        try:
            held = json.loads(self._state.read_text(encoding="utf-8"))
            about, state = dict(held["about"]), dict(held["state"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise DataError(f"{self._state} is damaged ({error}); delete it and {self._part} to start anew") from error
        for name in sorted({*about, *self._about}):
            if about.get(name) != self._about.get(name):
                raise DataError(
                    f"{self._part} belongs to another recording: its {name} is {about.get(name)}, yours "
                    f"{self._about.get(name)}; delete it to start anew"
                )
        return state

    def write(self, name: str, row: int, values: bytes) -> None:
        """Put a row of a tensor in its place; of a shorter one the rest is zero, and a hole where files have such."""
        tensor = self._layout[name]
        assert len(values) <= tensor.row
        self._file.seek(8 + self._size + self._first[name] + row * tensor.row)
        with named(self._part):
            self._file.write(values)

    def keep(self, state: Mapping[str, Any]) -> None:
        """Note what has been done, once its rows are on the disk."""
        self._flush()
        self.state = dict(state)
        write_whole(self._state, json.dumps({"about": self._about, "state": self.state}))

    def finish(self, about: Mapping[str, Any]) -> None:
        """Write the header, with all that is known now, and give the file its name."""
        header = self._header(about)
        assert len(header) <= self._size
        self._file.seek(0)
        self._file.write(struct.pack("<Q", self._size) + header.ljust(self._size))
        self._flush()
        self._file.close()
        os.replace(self._part, self._path)
        self._state.unlink(missing_ok=True)

    def _flush(self) -> None:
        with named(self._part):
            self._file.flush()
            os.fsync(self._file.fileno())

    def _header(self, about: Mapping[str, Any]) -> bytes:
        entries: dict[str, Any] = {"__metadata__": {"otspec": json.dumps(dict(about))}}
        for name, tensor in self._layout.items():
            first = self._first[name]
            span = [first, first + tensor.shape[0] * tensor.row]
            entries[name] = {"dtype": tensor.kind, "shape": list(tensor.shape), "data_offsets": span}
        return json.dumps(entries).encode()


@dataclass(frozen=True, eq=False)
class TopPosition(Position):
    """A position of which only the draft model's likeliest tokens are known, and the mass of all others.

    The target's mass elsewhere, at temperature 1 or where it is first known, stands on one token outside; the draft
    model's is left out, or one token of it would count among the likeliest.  A problem whose drafts are among the known
    tokens is the same as that of the whole laws: tokens that cannot be drafted matter by their mass alone.
    """

    known: int
    """Tokens that are known."""
    outside: int
    """The token that stands for all others."""
    rests: Mapping[float, float]
    """The target's mass on these, by temperature."""

    def problem(self, n: int, **settings: Any) -> Problem:
        """n i.i.d. drafts among the known tokens; the settings are those of `Problem.from_logits`.

        Raises
        ------
        ProblemError
            If drafts may be other tokens, or the temperature or the truncation is another than recorded.
        """
        top_k = settings.get("top_k")
        if not 1 <= (top_k or self.known + 1) <= self.known:
            raise ProblemError(
                f"{f'top_k is {top_k}' if top_k else 'all tokens may be drafted'}, and the file has the {self.known} "
                f"likeliest drafts of a position; pass top_k={self.known} or less, or record whole laws"
            )
        passed = {name: value for name, value in settings.items() if value is not None}
        temperature = passed.get("temperature", 1.0)
        if temperature not in self.rests:
            known = ", ".join(f"{one:g}" for one in self.rests)
            raise ProblemError(
                f"temperature is {temperature}, and the mass of the tokens that the file lacks is known at {known} "
                "only; record it at that temperature, or whole laws"
            )
        for name in ("target_top_k", "target_top_p"):
            if name in passed:
                raise ProblemError(
                    f"{name} is {passed[name]}, and the file lacks tokens of the target; record whole laws"
                )
        at = _with_rest(self.target_logits, self.outside, self.rests[temperature], temperature)
        return Problem.from_logits(at, self.draft_logits, n, **settings)


def _with_rest(logits: FloatArray, outside: int, rest: float, temperature: float) -> FloatArray:
    """Logits whose law at a temperature gives a token outside such a mass: the rest of the others' total."""
    others = np.delete(logits, outside) / temperature
    found = logits.copy()
    with np.errstate(divide="ignore"):
        found[outside] = temperature * (logsumexp(others) + np.log(rest) - np.log1p(-rest)) if rest < 1 else 0.0
    return found


def recorded_format(path: object) -> str | None:
    """What a file of ours holds, by its header; None for others, and for those missing or damaged.

    Raises
    ------
    DataError
        If it is of another schema than ours.
    """
    if not isinstance(path, str | Path) or Path(path).suffix.lower() != ".safetensors" or not Path(path).is_file():
        return None
    try:
        about = safetensors_about(Path(path))
    except DataError:
        return None
    held = of_schema(Path(path), about).get("format")
    return held if isinstance(held, str) else None


def of_schema(path: Path, about: Mapping[str, Any]) -> dict[str, Any]:
    """The header of a file, with the version of its schema, which was the first before files named one.

    Raises
    ------
    DataError
        If it is another version than ours.
    """
    found = about.get("schema", 1)
    if found != SCHEMA:
        raise DataError(
            f"{path} is of schema {found!r}, and this otspec reads {SCHEMA}; make it anew, or read it with the otspec "
            "that wrote it"
        )
    return {"schema": SCHEMA, **about}


class TopSource:
    """Positions of a file that `otspec record --top-k` wrote.

    Parameters
    ----------
    path : Path
    name : str, optional
        Of the source; that of the file by default.

    Raises
    ------
    DataError
        If it is damaged.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path, self.name = path, path.name if name is None else name
        self._arrays = {name: array for name, array in read(path, TOP_ARRAYS).items() if array is not None}
        self.about = of_schema(path, safetensors_about(path))
        if lacking := [name for name in TOP_ARRAYS if name not in self._arrays]:
            raise DataError(f"{path} lacks {', '.join(lacking)}; record it anew")
        try:
            self.vocab, (count, self.known) = int(self.about["vocab"]), self._arrays["tokens"].shape
            self.temperatures = tuple(map(float, self.about.get("rest_at", (1.0,))))
            if not (count and 0 < self.known < self.vocab and all(0 < one < math.inf for one in self.temperatures)):
                raise ValueError(f"{count} rows, {self.known} of {self.vocab} tokens, rests at {self.temperatures}")
            widths = self.known, self.known, len(self.temperatures), len(self.temperatures)
            for name, width in zip(TOP_ARRAYS[1:], widths, strict=True):
                held = self._arrays[name]
                if held.decode is None or (*held.shape, 1)[:2] != (count, width):
                    raise ValueError(f"{name} is {held.kind} of shape {held.shape}, not floats, {(count, width)}")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError(f"{path} is damaged ({error!r}); record it anew") from error

    def __reduce__(self) -> tuple[Any, ...]:
        """As the path, like `FileSource`."""
        return reopened, (type(self), *placed(self.path), {})

    @property
    def identity(self) -> Mapping[str, object]:
        """Name, size and digest of the file."""
        return file_identity(self.path)

    def __len__(self) -> int:
        return self._arrays["tokens"].shape[0]

    def position(self, index: int) -> TopPosition:
        """The position of that index.

        Raises
        ------
        DataError
            If the index is not in 0 .. len - 1, or the row holds no law.
        """
        index = check_index(index, self)
        tokens = np.asarray(self._arrays["tokens"].values[index]).astype(np.int64)
        if tokens.size != np.unique(tokens).size or not ((tokens >= 0) & (tokens < self.vocab)).all():
            raise DataError(f"{self.path}: tokens[{index}] are not {self.known} different ones of {self.vocab}")
        outside = int(np.setdiff1d(np.arange(self.known + 1), tokens)[0])
        logs, rests = {}, {}
        for name in ("target", "draft"):
            logs[name] = np.full(self.vocab, -np.inf)
            logs[name][tokens] = self._arrays[f"{name}_top"].row(index)
            rests[name] = np.atleast_1d(self._arrays[f"{name}_rest"].row(index))
            if not ((rests[name] >= 0) & (rests[name] <= 1)).all() or not (logs[name] < np.inf).all():
                raise DataError(
                    f"{self.path}: {name}_rest[{index}] is {rests[name].tolist()}, or {name}_top[{index}] holds no "
                    "logits"
                )
        of_target = dict(zip(self.temperatures, rests["target"].tolist(), strict=True))
        first = 1.0 if 1.0 in of_target else self.temperatures[0]
        target = _with_rest(logs["target"], outside, of_target[first], first)
        return TopPosition(target, logs["draft"], self.known, outside, of_target)

"""Two arrays of a file, target and draft: which they are, whether they fit together, and what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from otspec.data.formats import STACKED, Stored, read
from otspec.errors import DataError

KINDS = (("target_logits", "draft_logits"), ("target_probs", "draft_probs"))
"""Pairs of array names that a file may hold, each of shape (positions, V)."""

LOGITS, PROBS = "logits", "probs"

ROUGH = 0.02
"""How far probabilities of half precision may be off 1 in total, and still be told from everything else."""


@dataclass(frozen=True)
class Selection:
    """Which arrays of a file to read, where their names do not say it."""

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

    def names_in(self, path: Path, arrays: Mapping[str, Stored | None]) -> tuple[str, str]:
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
        way_out = "" if named else "; arrays of other names? Say which in target_key and draft_key"
        raise DataError(f"{path} holds {', '.join(arrays) or 'no arrays'}; positions need {needed}{way_out}")


def read_pair(path: Path, selection: Selection) -> tuple[tuple[str, str], Stored, Stored, str]:
    """Names of target and draft in a file, their arrays of shape (positions, V), and what these hold.

    The arrays are checked but for their values.

    Raises
    ------
    DataError
        If the file is of another format, damaged, or without such arrays.
    MissingExtra
        If it takes torch to read, and torch is missing.
    """
    arrays = read(path, [name for pair in selection.pairs for name in pair])
    names = selection.names_in(path, arrays)
    target, draft = (_checked(path, name, arrays[name]) for name in names)
    if target.shape != draft.shape:
        raise DataError(f"{path}: {names[0]} has shape {target.shape}, {names[1]} {draft.shape}; both need one shape")
    kind = selection.kind or _kind_by_name(names) or _kind_by_look(path, names, (target, draft))
    return names, target, draft, kind


def _checked(path: Path, name: str, array: Stored | None) -> Stored:
    """The array, if it holds rows of floating-point numbers."""
    if array is None or len(array.shape) != 2 or 0 in array.shape or array.decode is None:
        kind, shape = ("nothing", ()) if array is None else (array.kind, array.shape)
        way_out = "; reshape it to (-1, V)" if len(shape) > 2 else ""
        raise DataError(f"{path}: {name} is {kind} of shape {shape}; need floats, (positions, V){way_out}")
    return array


def _kind_by_name(names: tuple[str, str]) -> str | None:
    """What the names of the arrays say that they hold; None where they say nothing, or both."""
    words = {"prob": PROBS, "logit": LOGITS}
    found = {kind for word, kind in words.items() if all(word in name.lower() for name in names)}
    return found.pop() if len(found) == 1 else None


def _kind_by_look(path: Path, names: tuple[str, str], arrays: tuple[Stored, Stored]) -> str:
    """What the first position looks like: values in [0, 1] that sum to 1 are probabilities."""
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

"""One position, and what a source of positions is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from otspec.errors import DataError
from otspec.laws import FloatArray
from otspec.problem import Problem


@dataclass(frozen=True, eq=False)
class Position:
    """The logits of both models for one next token.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.data import Position
    >>> position = Position(target_logits=np.array([2.0, 1.0, 0.0]), draft_logits=np.array([1.0, 1.0, 0.0]))
    >>> print(position.problem(n=2, temperature=0.5).p.round(3))
    [0.867 0.117 0.016]
    """

    target_logits: FloatArray
    """Shape (V,)."""
    draft_logits: FloatArray
    """Shape (V,)."""

    def problem(self, n: int, **settings: Any) -> Problem:
        """n i.i.d. drafts at this position; the settings are those of `Problem.from_logits`."""
        return Problem.from_logits(self.target_logits, self.draft_logits, n, **settings)


class Source(Protocol):
    """A numbered list of positions over one vocabulary."""

    name: str
    vocab: int

    @property
    def identity(self) -> Mapping[str, object]:
        """What distinguishes this source from every other, in words and numbers fit for JSON."""

    def __len__(self) -> int:
        """How many positions there are."""

    def position(self, index: int) -> Position:
        """One of them, 0 <= index < len."""


class Numbered(Protocol):
    """A numbered list of things."""

    name: str

    def __len__(self) -> int:
        """How many there are."""


def check_index(index: int, source: Numbered, what: str = "position") -> int:
    """Check the index of a position, or of something else.

    Parameters
    ----------
    index : int
        From 0 on.
    source : Numbered
    what : str
        What is numbered, for error messages.

    Raises
    ------
    DataError
        If it is not an integer in 0 .. len - 1.
    """
    if isinstance(index, bool) or not isinstance(index, int | np.integer) or not 0 <= index < len(source):
        raise DataError(f"{what} {index!r} of {source.name}: indices run from 0 to {len(source) - 1}")
    return int(index)


def check_positions(source: Source, positions: int) -> int:
    """Check that a source has enough positions.

    Parameters
    ----------
    source : Source
    positions : int
        How many are needed, >= 1.

    Returns
    -------
    int
        The same number.

    Raises
    ------
    DataError
        If it has fewer, or the number is not an integer >= 1.

    Examples
    --------
    >>> from otspec.data import check_positions, open_source
    >>> check_positions(open_source("shipped"), 8)  # as many are there; more than there are is an error
    8
    """
    if isinstance(positions, bool) or not isinstance(positions, int | np.integer) or not 1 <= positions <= len(source):
        raise DataError(f"positions is {positions!r}; {source.name} has 1 to {len(source)}")
    return positions

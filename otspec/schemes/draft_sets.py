"""Drafts grouped by the set of distinct tokens they form.

Acceptance and losslessness see a tuple of drafts only through that set, so every linear program and network over
tuples shrinks, exactly, to one over sets: at k = 10, n = 4 from 10 000 tuples to 385 sets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray, sum_by

PAD = -1
"""Fills the rows of `DraftSets.tokens` to equal length; smaller than every token, so that rows sort like words."""


LISTABLE = 30_000_000
"""Largest list of tuples or sets, in tokens: a few gigabytes while it is made."""


COUNTED = 64
"""Drafts beyond which tuples and sets are not counted on: with two tokens there are 2**64, more than any limit."""


def check_listable(count: int, n: int, what: str) -> None:
    """Refuse to list more than memory holds, before anything is listed.

    Raises
    ------
    ProblemError
        If `count` tuples or sets of n tokens exceed `LISTABLE`.
    """
    if count * n > LISTABLE:
        size = f"{count:,}" if count < 10**15 else f"about 10**{len(str(count)) - 1}"
        raise ProblemError(
            f"there are up to {size} {what} of {n} tokens, too many to list (at most {LISTABLE:,} tokens in all); "
            "truncate the drafts to fewer tokens, draw fewer, or draw tuples with sample()"
        )


@dataclass(frozen=True, eq=False)
class DraftSets:
    """Sets of distinct drafted tokens.

    A *cell* is a pair (set, token of that set): a variable of the relaxed transport program.  Cells are numbered set
    by set, tokens ascending.

    Examples
    --------
    >>> import otspec
    >>> sets = otspec.IID([0.2, 0.3, 0.5], n=2).draft_sets()
    >>> for start, stop, mass in zip(sets.indptr[:-1], sets.indptr[1:], sets.mass):
    ...     print(sets.cells[start:stop].tolist(), f"{mass:.2f}")
    [0] 0.04
    [0, 1] 0.12
    [0, 2] 0.20
    [1] 0.09
    [1, 2] 0.30
    [2] 0.25
    """

    tokens: IntArray
    """Shape (m, n): ascending distinct tokens, filled with `PAD`; rows in lexicographic order."""
    mass: FloatArray
    """Shape (m,): the probability that the drafts form the set, above 0."""

    @classmethod
    def of_support(cls, drafts: IntArray, probabilities: FloatArray) -> DraftSets:
        """Group explicit tuples, shapes (m, n) and (m,), by their set of distinct tokens."""
        distinct = np.sort(drafts, axis=1)
        distinct[:, 1:][distinct[:, 1:] == distinct[:, :-1]] = PAD
        # Push the fill to the end of each row: repeats leave holes in the middle.
        distinct = np.take_along_axis(distinct, np.argsort(distinct == PAD, axis=1, kind="stable"), axis=1)
        order = np.lexsort(distinct.T[::-1])
        distinct = distinct[order]
        first = np.flatnonzero(np.append(True, (np.diff(distinct, axis=0) != 0).any(axis=1)))
        return cls(distinct[first], np.add.reduceat(probabilities[order], first))

    def __len__(self) -> int:
        return len(self.mass)

    @cached_property
    def indptr(self) -> IntArray:
        """Shape (m + 1,): the cells of set s are indptr[s] to indptr[s + 1]."""
        return np.concatenate(([0], np.cumsum((self.tokens != PAD).sum(axis=1))))

    @cached_property
    def cells(self) -> IntArray:
        """Token of each cell, shape (cells,)."""
        return self.tokens[self.tokens != PAD]

    @cached_property
    def owner(self) -> IntArray:
        """Set of each cell, shape (cells,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    def find(self, drafts: IntArray) -> int:
        """Row of the set that a tuple of drafts, shape (n,), forms, in O(n log m).

        Raises
        ------
        ProblemError
            If no tuple with that set can occur, or its probability is 0 in float64.
        """
        distinct = np.unique(drafts)
        low, high = 0, len(self)
        for column in range(self.tokens.shape[1]):
            token = distinct[column] if column < distinct.size else PAD
            values = self.tokens[low:high, column]
            low, high = (low + int(np.searchsorted(values, token, side)) for side in ("left", "right"))
        if low == high:
            raise ProblemError(
                f"drafts {drafts.tolist()} have probability 0 under the scheme; draw them with its sample()"
            )
        return low


def pick_weights(sets: DraftSets, accepted: FloatArray) -> FloatArray:
    """beta(token | set) of each cell: in proportion to the mass accepted there, uniform where none is.

    This is Theorem 4.1 of [thomas2025global]: it turns any optimal solution of the relaxed transport program into an
    optimal choice among the drafts.

    Parameters
    ----------
    sets : DraftSets
        Of m sets and some cells.
    accepted : ndarray, shape (cells,)
        Probability that the drafts form the cell's set and its token is put out.

    Returns
    -------
    ndarray, shape (cells,)
        Probabilities that sum to 1 over each set.
    """
    totals = np.add.reduceat(accepted, sets.indptr[:-1])[sets.owner]
    sizes = np.diff(sets.indptr)[sets.owner]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(totals > 0, accepted / totals, 1.0 / sizes)


def pick_law(sets: DraftSets, weights: FloatArray, vocab: int) -> FloatArray:
    """Law g of the draft that is picked.

    Parameters
    ----------
    sets : DraftSets
        Of m sets and some cells.
    weights : ndarray, shape (cells,)
        Probability of picking each cell's token, if the drafts form its set.
    vocab : int
        Number of tokens V.

    Returns
    -------
    ndarray, shape (V,)
    """
    return sum_by(sets.cells, weights * sets.mass[sets.owner], vocab)

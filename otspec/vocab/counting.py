"""How often tokens occur near each other, counted over a stream of texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from otspec.errors import ProblemError
from otspec.laws import IntArray, as_count
from otspec.vocab.intersection import as_array, as_row_tokens
from otspec.vocab.matrices import sparse_rows
from otspec.vocab.tensors import Arrays

BLOCK = 1 << 16
"""Tokens of a text whose pairs are listed at a time."""
PENDING = 1 << 22
"""Pairs that are gathered before they are counted, at least: 32 MiB."""
MOST_PAIRS = 1 << 27
"""Different pairs that are held, at most: 2 GiB, and as much again while they are sorted."""


class PairCounts:
    """Counts of the pairs of tokens at most `window` places apart, in texts that come one after the other.

    The count of (i, j) is the number of pairs of places s and t of one text, |s - t| <= window, where token i is at s
    and j at t.  It is symmetric; and as s = t is one of them, each token that occurs is seen with itself, so that
    `affinity_from_counts` leaves some of its mass where it is.  Pairs are held sparse, and added exactly.

    Parameters
    ----------
    vocab : int
        Number V of tokens.
    window : int
        How many places apart a pair may be.
    tokens : array_like of int, shape (k,), optional
        Tokens i whose pairs are counted, such as those of the drafter; default all.
    most_pairs : int
        Different pairs that are held before counting is refused, which bounds the memory at 32 bytes for each.

    Raises
    ------
    ProblemError
        If a number is not an integer >= 1, or the tokens are not different ids below V.

    Examples
    --------
    >>> from otspec.vocab import PairCounts
    >>> pairs = PairCounts(vocab=3, window=1)
    >>> pairs.add([0, 1, 0, 2])
    >>> print(pairs.matrix().toarray())
    [[2 2 1]
     [2 1 0]
     [1 0 1]]
    """

    kind = "counts"

    def __init__(self, vocab: int, window: int, tokens: Any = None, most_pairs: int = MOST_PAIRS) -> None:
        self.vocab, self.window = as_count("vocab", vocab), as_count("window", window)
        self.most_pairs = as_count("most_pairs", most_pairs)
        self.tokens = as_row_tokens(tokens, self.vocab)
        self.occurrences: IntArray = np.zeros(self.vocab, dtype=np.int64)
        self._row = np.full(self.vocab, -1)
        self._row[self.tokens] = np.arange(self.tokens.size)
        self._keys: IntArray = np.zeros(0, dtype=np.int64)  # row * V + column, ascending
        self._counts: IntArray = np.zeros(0, dtype=np.int64)
        self._pending: list[IntArray] = []

    @property
    def seen(self) -> int:
        """Tokens of all texts so far."""
        return int(self.occurrences.sum())

    def add(self, text: Any) -> None:
        """Count the pairs of one text.

        Parameters
        ----------
        text : array_like of int, shape (length,)
            Its token ids; there may be none.

        Raises
        ------
        ProblemError
            If they are not ids below V, or there are more different pairs than may be held.
        """
        ids = self._as_text(text)
        self.occurrences += np.bincount(ids, minlength=self.vocab)
        for start in range(0, ids.size, BLOCK):
            for distance in range(min(self.window, ids.size - start - 1) + 1):
                right = ids[start + distance : start + distance + BLOCK]
                left = ids[start : start + right.size]
                self._list(left, right)
                if distance:
                    self._list(right, left)
                if sum(keys.size for keys in self._pending) > max(PENDING, self._keys.size):
                    self._count()

    def matrix(self) -> Any:
        """The counts, a sparse array of int64, shape (k, V), columns ascending in each row."""
        self._count()
        ends = np.searchsorted(self._keys, np.arange(self.tokens.size + 1) * self.vocab)
        return sparse_rows(self._counts, self._keys % self.vocab, ends, self.vocab)

    def arrays(self) -> Arrays:
        """All that has been counted, for `restore`."""
        self._count()
        return {"keys": self._keys, "counts": self._counts, "occurrences": self.occurrences}

    def restore(self, arrays: Arrays) -> None:
        """Go on from what `arrays` gave, of counts with the same settings."""
        self._keys, self._counts, self.occurrences = (arrays[name] for name in ("keys", "counts", "occurrences"))
        self._pending = []

    def _as_text(self, text: Any) -> npt.NDArray[np.int64]:
        ids = as_array("a text", text)
        if ids.ndim != 1 or (ids.size and not np.issubdtype(ids.dtype, np.integer)):
            raise ProblemError(f"a text is {ids.dtype} of shape {ids.shape}; pass its token ids, shape (length,)")
        if ids.size and (ids.min() < 0 or ids.max() >= self.vocab):
            wrong = int(ids.min() if ids.min() < 0 else ids.max())
            raise ProblemError(f"a text holds token {wrong}; token ids run from 0 to {self.vocab - 1}")
        return ids.astype(np.int64)

    def _list(self, first: IntArray, second: IntArray) -> None:
        row = self._row[first]
        counted = row >= 0
        self._pending.append(row[counted] * self.vocab + second[counted])

    def _count(self) -> None:
        """Add the pairs that were listed to those that were counted."""
        if not self._pending:
            return
        new, counts = np.unique(np.concatenate(self._pending), return_counts=True)
        keys = np.concatenate((self._keys, new))
        order = np.argsort(keys, kind="stable")  # which only merges what is in order already
        keys = keys[order]
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        if first.size > self.most_pairs:
            raise ProblemError(
                f"there are more than {self.most_pairs:,} different pairs of tokens, the most to hold; name fewer "
                "tokens that get a row, take a smaller window, or raise most_pairs"
            )
        self._counts = np.add.reduceat(np.concatenate((self._counts, counts))[order], first) if keys.size else counts
        self._keys, self._pending = keys[first], []

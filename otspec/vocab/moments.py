"""Means and covariances of the tokens' logits or probabilities, over a stream of samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray, as_count, as_float64
from otspec.vocab.intersection import as_row_tokens
from otspec.vocab.tensors import Arrays

MOST_CELLS = 1 << 28
"""Covariances that are held at most: 2 GiB."""


class Moments:
    """Mean of every token and covariances of some with all, over samples that come a few at a time.

    A chunk is added by its own mean and by products of what differs from it [chan1979updating], so that nothing cancels
    and the result does not depend on how the samples were cut but for rounding.

    Parameters
    ----------
    vocab : int
        Number V of tokens.
    tokens : array_like of int, shape (k,), optional
        Tokens that get a row of covariances, such as those of the drafter; default all.
    most_cells : int
        Covariances that are held, at most: k V of them take 8 bytes each, and as much while a chunk is added.

    Raises
    ------
    ProblemError
        If the tokens are not different ids below V, or the rows would take more than that.

    Examples
    --------
    >>> from otspec.vocab import Moments
    >>> found = Moments(vocab=3)
    >>> for chunk in [[1.0, 0.0, 2.0], [3.0, 0.0, 2.0]], [[2.0, 0.0, 5.0]]:
    ...     found.add(chunk)
    >>> print(found.mean)
    [2. 0. 3.]
    >>> print(found.covariance())
    [[1. 0. 0.]
     [0. 0. 0.]
     [0. 0. 3.]]
    """

    kind = "covariance"

    def __init__(self, vocab: int, tokens: Any = None, most_cells: int = MOST_CELLS) -> None:
        self.vocab = as_count("vocab", vocab)
        self.tokens = as_row_tokens(tokens, self.vocab)
        if (cells := self.tokens.size * self.vocab) > as_count("most_cells", most_cells):
            raise ProblemError(
                f"{self.tokens.size:,} rows of {self.vocab:,} covariances are {cells:,} numbers, and most_cells is "
                f"{most_cells:,}; name fewer tokens that get a row, or raise it"
            )
        self.seen = 0
        self.mean: FloatArray = np.zeros(self.vocab)
        self._products: FloatArray = np.zeros((self.tokens.size, self.vocab))

    def add(self, samples: Any) -> None:
        """Add samples.

        Parameters
        ----------
        samples : array_like, shape (B, V)
            Logits or probabilities in B contexts.

        Raises
        ------
        ProblemError
            If they are not finite numbers of that shape.
        """
        rows = as_float64("samples", samples)
        if rows.ndim != 2 or rows.shape[1] != self.vocab:
            raise ProblemError(f"samples have shape {rows.shape}; they need (B, {self.vocab})")
        if not (finite := np.isfinite(rows)).all():
            raise ProblemError(
                f"samples hold {rows[~finite][0]}; covariances take finite numbers (where tokens are masked, pass "
                "probabilities)"
            )
        if not len(rows):
            return
        mean = rows.mean(axis=0)
        within, between = rows - mean, mean - self.mean
        total = self.seen + len(rows)
        self._products += within[:, self.tokens].T @ within
        self._products += np.outer(between[self.tokens] * (self.seen * len(rows) / total), between)
        self.mean = self.mean + between * (len(rows) / total)
        self.seen = total

    def covariance(self) -> FloatArray:
        """Covariances of the tokens that get a row with all, shape (k, V).

        Raises
        ------
        ProblemError
            If there are fewer than two samples.
        """
        if self.seen < 2:
            raise ProblemError(f"there are {self.seen} samples; a covariance takes two or more")
        return self._products / (self.seen - 1)

    def arrays(self) -> Arrays:
        """All that has been added, for `restore`."""
        return {"mean": self.mean, "products": self._products, "seen": np.array([self.seen])}

    def restore(self, arrays: Arrays) -> None:
        """Go on from what `arrays` gave, of moments with the same settings."""
        self.mean, self._products, self.seen = arrays["mean"], arrays["products"], int(arrays["seen"][0])

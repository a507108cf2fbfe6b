"""Row-stochastic matrices in three forms, none of which needs N x N numbers where its input has fewer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray, as_count, as_laws, likeliest, sum_by
from otspec.vocab.intersection import as_mask, cut_down

BLOCK_CELLS = 1 << 22
"""Entries of rows that are computed at a time: 32 MiB."""


class Affinity(ABC):
    """A row-stochastic matrix M over V tokens, with rows for some or all of them [timor2025out, Assumption 4.1].

    Examples
    --------
    >>> from otspec.vocab import affinity_from_counts
    >>> matrix = affinity_from_counts([[8, 1, 1], [2, 0, 6]], tokens=[0, 2])  # token 1 is not the drafter's
    >>> print(matrix.rows(0, 2))
    [[0.8  0.1  0.1 ]
     [0.25 0.   0.75]]
    >>> print(matrix.redistribute([0.5, 0.0, 0.5]))
    [0.525 0.05  0.425]
    """

    tokens: IntArray
    """Ids of the tokens that have a row, shape (k,)."""

    @property
    @abstractmethod
    def vocab(self) -> int:
        """Number of columns V."""

    @abstractmethod
    def rows(self, start: int, stop: int) -> FloatArray:
        """Rows `start` to `stop` of the matrix, in the order of `tokens`, shape (stop - start, V)."""

    @abstractmethod
    def _spread(self, weights: FloatArray) -> FloatArray:
        """Weights of the rows, shape (B, k), times the matrix, shape (B, V)."""

    def redistribute(self, q: Any) -> FloatArray:
        """M^T q', q' being q cut down to the tokens with a row, renormalised; shape (..., V), as q has.

        Raises
        ------
        ProblemError
            If q is for another number of tokens, is not a law, or has no mass on a token with a row.
        """
        laws = as_laws("q", q)
        if laws.shape[-1] != self.vocab:
            raise ProblemError(f"q has {laws.shape[-1]} tokens and the affinity {self.vocab}; both need one vocabulary")
        inside = cut_down(laws, as_mask("tokens", self.tokens, self.vocab))[..., self.tokens]
        moved = self._spread(inside.reshape(-1, self.tokens.size)).reshape(laws.shape)
        return moved / moved.sum(axis=-1, keepdims=True)

    def nearest(self, count: int) -> Affinity:
        """The `count` largest entries of every row, renormalised, as a sparse matrix.

        Every row is computed once; afterwards a law costs k times `count` operations and not k times V.

        Raises
        ------
        ProblemError
            If count is not a positive integer.
        """
        count = min(as_count("count", count), self.vocab)
        size = self.tokens.size
        columns, values = np.empty((size, count), dtype=np.int64), np.empty((size, count))
        for start, stop in self._blocks(np.arange(size)):
            for number, row in enumerate(self.rows(start, stop), start):
                columns[number] = likeliest(row, count)
                values[number] = row[columns[number]]
        values /= values.sum(axis=1, keepdims=True)
        rows = sparse_rows(values.ravel(), columns.ravel(), np.arange(size + 1) * count, self.vocab)
        rows.eliminate_zeros()
        return StoredAffinity(self.tokens, rows, np.ones(size))

    def _blocks(self, rows: IntArray) -> Iterator[tuple[int, int]]:
        """Runs of neighbours among ascending row numbers, none of more than `BLOCK_CELLS` entries."""
        most = max(1, BLOCK_CELLS // self.vocab)
        for run in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1):
            for start in range(0, run.size, most):
                yield int(run[start]), int(run[min(start + most, run.size) - 1]) + 1


@dataclass(frozen=True, eq=False)
class StoredAffinity(Affinity):
    """A matrix that is there, dense or sparse."""

    tokens: IntArray
    """Shape (k,): ids of the tokens that have a row."""
    matrix: Any
    """Weights >= 0, shape (k, V)."""
    totals: FloatArray
    """Sum of each row's weights, shape (k,)."""

    @property
    def vocab(self) -> int:
        """Number of columns V."""
        return int(self.matrix.shape[1])

    def rows(self, start: int, stop: int) -> FloatArray:
        """Those rows, dense, shape (stop - start, V)."""
        part = self.matrix[start:stop]
        return (part.toarray() if is_sparse(part) else part) / self.totals[start:stop, None]

    def _spread(self, weights: FloatArray) -> FloatArray:
        return (self.matrix.T @ (weights / self.totals).T).T


@dataclass(frozen=True, eq=False)
class Raised(Affinity):
    """Softmax of a sparse matrix: every row is flat but for its stored entries.

    An entry that is not stored is a covariance of 0 and weighs exp(0).  Row i is (flat_i + change_i) / total_i, and the
    changes, as sparse as the input, are computed by expm1, so that small covariances keep their digits.
    """

    tokens: IntArray
    """Shape (k,): ids of the tokens that have a row."""
    flat: FloatArray
    """Weight of an entry that is not stored, up to the factor that makes the row's largest weight 1, shape (k,)."""
    change: Any
    """What the stored entries weigh more than that, sparse, shape (k, V)."""
    totals: FloatArray
    """Sum of each row's weights, shape (k,)."""

    @classmethod
    def of(cls, covariance: Any, tau: float, tokens: IntArray) -> Raised:
        """The softmax of covariance / tau, of a sparse matrix of shape (k, V) without duplicates."""
        count, vocab = covariance.shape
        value, stored = covariance.data, np.diff(covariance.indptr)
        row = np.repeat(np.arange(count), stored)
        top = np.where(stored < vocab, 0.0, -np.inf)
        np.maximum.at(top, row, value)
        with np.errstate(over="ignore"):  # to -inf, whose exponential is the 0 it should be
            flat = np.where(stored < vocab, np.exp(-np.maximum(top, 0.0) / tau), 0.0)
            weight = np.exp((value - top[row]) / tau)
            rise = -weight * np.expm1(-np.maximum(value, 0.0) / tau)
            fall = flat[row] * np.expm1(np.minimum(value, 0.0) / tau)
        change = np.where(flat[row] == 0, weight, np.where(value > 0, rise, fall))
        totals = flat * (vocab - stored) + sum_by(row, weight, count)
        return cls(tokens, flat, sparse_rows(change, covariance.indices, covariance.indptr, vocab), totals)

    @property
    def vocab(self) -> int:
        """Number of columns V."""
        return int(self.change.shape[1])

    def rows(self, start: int, stop: int) -> FloatArray:
        """Those rows, dense, shape (stop - start, V)."""
        weights = self.flat[start:stop, None] + self.change[start:stop].toarray()
        return np.maximum(weights, 0.0) / self.totals[start:stop, None]

    def _spread(self, weights: FloatArray) -> FloatArray:
        weights = weights / self.totals
        moved = (weights @ self.flat)[:, None] + (self.change.T @ weights.T).T
        return np.maximum(moved, 0.0)  # a column that every row lowers to nothing may come out at -1e-20


@dataclass(frozen=True, eq=False)
class Factored(Affinity):
    """Softmax of a covariance of low rank, in blocks of rows."""

    tokens: IntArray
    """Shape (k,): ids of the tokens that have a row."""
    factor: FloatArray
    """F with covariance F F^T, shape (V, r)."""
    tau: float
    """Temperature, in the unit of the covariance."""

    @property
    def vocab(self) -> int:
        """Number of columns V."""
        return self.factor.shape[0]

    def rows(self, start: int, stop: int) -> FloatArray:
        """Those rows, computed, shape (stop - start, V)."""
        # Powers of two are taken out of each row and of the whole factor: products neither overflow nor lose digits.
        part = self.factor[self.tokens[start:stop]]
        scales, scale = _power_of_two(np.abs(part).max(axis=1, keepdims=True)), _power_of_two(np.abs(self.factor).max())
        return softmax_rows((part / scales) @ (self.factor / scale).T, self.tau, scales, scale)

    def _spread(self, weights: FloatArray) -> FloatArray:
        moved = np.zeros((weights.shape[0], self.vocab))
        for start, stop in self._blocks(np.flatnonzero(weights.any(axis=0))):
            moved += weights[:, start:stop] @ self.rows(start, stop)
        return moved


def softmax_rows(values: FloatArray, tau: float, row_scales: Any = 1.0, scale: float = 1.0) -> FloatArray:
    """exp(values * scales / tau), each row a law; its largest is subtracted first, so that nothing overflows.

    Parameters
    ----------
    values : ndarray, shape (k, V)
    tau : float
        Temperature.
    row_scales : ndarray, shape (k, 1), or float
        Factors of the rows.
    scale : float
        A factor of all.

    Returns
    -------
    ndarray, shape (k, V)
    """
    with np.errstate(over="ignore"):  # to -inf, whose exponential is the 0 it should be
        below = values - values.max(axis=1, keepdims=True)
        below *= row_scales
        below /= tau
        below *= scale
        weights = np.exp(below)
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def _power_of_two(values: Any) -> Any:
    """The largest powers of two that are at most these values, shape as given; 1 / 2 for 0."""
    return np.ldexp(1.0, np.frexp(values)[1] - 1)


def is_sparse(values: Any) -> bool:
    """Whether this is a sparse array or matrix of scipy."""
    return bool(sparse.issparse(values))


def sparse_rows(data: Any, columns: Any, ends: Any, vocab: int) -> Any:
    """A sparse matrix by rows.

    Parameters
    ----------
    data, columns : array_like, shape (entries,)
        The entries, and the column of each.
    ends : array_like of int, shape (k + 1,)
        Row i holds the entries ends[i] to ends[i + 1].
    vocab : int
        Number of columns V.

    Returns
    -------
    scipy.sparse.csr_array, shape (k, V)
    """
    return sparse.csr_array((data, columns, ends), shape=(len(ends) - 1, vocab))

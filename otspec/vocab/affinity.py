"""Affinities of tokens: where draft mass goes, from covariances, their factor, counts, or a matrix that you have.

With N = 128 256 tokens no N x N array is needed: give rows to the drafter's k tokens only, count pairs in a sparse
matrix, or pass a factor of the covariance.  `Affinity.nearest` makes any of them sparse, once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray, as_float, as_float64, sum_by
from otspec.tolerances import MASS_TOL
from otspec.vocab.intersection import as_ids
from otspec.vocab.matrices import Affinity, Factored, Raised, StoredAffinity, is_sparse, softmax_rows, sparse_rows


def affinity(covariance: Any, tau: float = 1.0, *, tokens: Any = None) -> Affinity:
    """M_ij proportional to exp(covariance_ij / tau), each row a law [timor2025out, eq. (2)].

    With tau near 0 each token's mass goes to the token of largest covariance.  With tau large rows are uniform, and so
    is every redistributed law: where no covariance is beyond +-c, all entries are 1 / V up to factors exp(+-2 c / tau).

    Parameters
    ----------
    covariance : array_like or sparse array, shape (k, V)
        Covariances of the tokens that get a row with all tokens.  -inf, in a dense one, rules a token out.  What a
        sparse one does not store is 0, and weighs exp(0) = 1: rows are flat but for the stored entries, and stored so.
    tau : float
        Temperature, in the unit of the covariance.
    tokens : array_like of int, shape (k,), optional
        The token of each row, for a drafter that has only some; without it k is V.

    Raises
    ------
    ProblemError
        If the covariance is not such an array or rules out a whole row, the ids are not k different tokens, or tau is
        not > 0.

    Examples
    --------
    >>> from otspec.vocab import affinity
    >>> covariance = [[1.0, 0.5], [0.5, 1.0]]
    >>> for tau in 0.1, 10.0:  # sharp, and flat
    ...     print(affinity(covariance, tau).rows(0, 1).round(2))
    [[0.99 0.01]]
    [[0.51 0.49]]
    """
    tau = as_temperature(tau)
    matrix = as_matrix("covariance", covariance, masks=True)
    ids = row_tokens("covariance", matrix.shape, tokens)
    if is_sparse(matrix):
        return Raised.of(matrix, tau, ids)
    if (nowhere := np.isneginf(matrix).all(axis=1)).any():
        raise ProblemError(
            f"row {nowhere.argmax()} of covariance is -inf throughout; its mass would have nowhere to go"
        )
    return StoredAffinity(ids, softmax_rows(matrix, tau), np.ones(ids.size))


def affinity_from_factor(factor: Any, tau: float = 1.0, *, tokens: Any = None) -> Affinity:
    """`affinity` of the covariance F F^T, whose rows are computed when they are needed, and never all at once.

    Samples X of shape (S, V), such as logits, have the factor ``(X - X.mean(axis=0)).T / np.sqrt(S - 1)``.

    Parameters
    ----------
    factor : array_like, shape (V, r)
        F.
    tau : float
        Temperature, in the unit of the covariance.
    tokens : array_like of int, shape (k,), optional
        Tokens that get a row; default all.

    Raises
    ------
    ProblemError
        If the factor is not such an array, the ids are not different tokens, or tau is not > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.vocab import affinity, affinity_from_factor
    >>> factor = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 2.0]])
    >>> some = affinity_from_factor(factor, tokens=[2])  # F F^T is never held
    >>> print(some.rows(0, 1).round(3), affinity(factor @ factor.T).rows(2, 3).round(3))
    [[0.017 0.047 0.936]] [[0.017 0.047 0.936]]
    """
    tau = as_temperature(tau)
    if is_sparse(factor):
        raise ProblemError("factor is sparse; pass a dense array of shape (V, r), or the sparse covariance to affinity")
    matrix = as_matrix("factor", factor)
    every = np.arange(matrix.shape[0])
    return Factored(every if tokens is None else as_ids("tokens", tokens, every.size), matrix, tau)


def affinity_from_counts(counts: Any, tau: float = 1.0, *, tokens: Any = None) -> Affinity:
    """M_ij proportional to counts_ij ** (1 / tau): eq. (2) for logarithms of counts, and as sparse as these.

    With tau = 1 the row of a token is the empirical law of the tokens seen together with it.

    Parameters
    ----------
    counts : array_like or sparse array, shape (k, V)
        How often each pair occurs together.
    tau : float
        Temperature: below 1 sharper, above 1 flatter.
    tokens : array_like of int, shape (k,), optional
        The token of each row, for a drafter that has only some; without it k is V.

    Raises
    ------
    ProblemError
        If the counts are not such an array, negative, or 0 in a whole row, the ids are not k different tokens, or tau
        is not > 0.

    Examples
    --------
    >>> from otspec.vocab import affinity_from_counts
    >>> print(affinity_from_counts([[6, 2], [1, 3]]).rows(0, 2))
    [[0.75 0.25]
     [0.25 0.75]]
    """
    tau = as_temperature(tau)
    matrix = as_matrix("counts", counts)
    ids = row_tokens("counts", matrix.shape, tokens)
    if (least := matrix.min()) < 0:
        raise ProblemError(f"counts hold {least:.6g}; counts are >= 0. Covariances? See otspec.vocab.affinity.")
    if (empty := _totals(matrix) == 0).any():
        raise ProblemError(
            f"row {empty.argmax()} of counts is 0 throughout; leave it out and name the others in tokens, or put a "
            "count on its diagonal, which keeps its mass where it is"
        )
    with np.errstate(divide="ignore"):  # log 0: a weight of 0
        if is_sparse(matrix):
            return softmax_of_stored(matrix, np.log(matrix.data), tau, ids)
        return StoredAffinity(ids, softmax_rows(np.log(matrix), tau), np.ones(ids.size))


def softmax_of_stored(matrix: Any, values: FloatArray, tau: float, tokens: IntArray) -> Affinity:
    """Rows proportional to exp(values / tau) where the matrix stores one, as it does in every row; else 0.

    Parameters
    ----------
    matrix : scipy.sparse.csr_array, shape (k, V)
        With at least one entry in each row.
    values : ndarray, shape (entries,)
        What stands for the entries.
    tau : float
        Temperature, in the unit of the values.
    tokens : ndarray of int, shape (k,)
        The token of each row.
    """
    row = np.repeat(np.arange(tokens.size), np.diff(matrix.indptr))
    largest = np.full(tokens.size, -np.inf)
    np.maximum.at(largest, row, values)
    with np.errstate(over="ignore"):  # to -inf, whose exponential is the 0 it should be
        weights = np.exp((values - largest[row]) / tau)
    rows = sparse_rows(weights, matrix.indices, matrix.indptr, matrix.shape[1])
    return StoredAffinity(tokens, rows, sum_by(row, weights, tokens.size))


def affinity_from_matrix(matrix: Any, *, tokens: Any = None) -> Affinity:
    """A row-stochastic matrix of your own, checked once.

    Parameters
    ----------
    matrix : array_like or sparse array, shape (k, V)
        Entries >= 0, in rows whose sums are within `MASS_TOL` of 1; the rest is rounding and divided out.
    tokens : array_like of int, shape (k,), optional
        The token of each row, for a drafter that has only some; without it k is V.

    Raises
    ------
    ProblemError
        If it is not row-stochastic, or the ids are not k different tokens.

    Examples
    --------
    >>> from otspec.vocab import affinity_from_matrix, rdk
    >>> swap = affinity_from_matrix([[0.0, 1.0], [1.0, 0.0]])
    >>> print(rdk([0.9, 0.1], swap))
    [0.1 0.9]
    """
    checked = as_matrix("affinity", matrix).copy()
    ids = row_tokens("affinity", checked.shape, tokens)
    if (least := checked.min()) < 0:
        raise ProblemError(f"affinity holds {least:.6g}; the entries of a row-stochastic matrix are >= 0")
    totals = _totals(checked)
    if (off := np.abs(totals - 1)).max() > MASS_TOL:
        raise ProblemError(
            f"row {off.argmax()} of affinity sums to {totals[off.argmax()]:.6g} (allowed: 1 +/- {MASS_TOL:g}); divide "
            "rows by their sums. Counts? See otspec.vocab.affinity_from_counts. Covariances? See otspec.vocab.affinity."
        )
    return StoredAffinity(ids, checked, totals)


def as_temperature(tau: float) -> float:
    """Check a temperature.

    Parameters
    ----------
    tau : float
        Finite and above 0.

    Raises
    ------
    ProblemError
        If it is not a positive number.
    """
    value = as_float(tau)
    if not 0 < value < np.inf:
        raise ProblemError(f"tau is {tau!r}; a temperature is finite and > 0")
    return value


def as_matrix(name: str, values: Any, masks: bool = False) -> Any:
    """A float64 matrix, dense, or sparse by rows with every entry stored once.

    Parameters
    ----------
    name : str
        What it is called in error messages.
    values : array_like or sparse array, shape (k, V)
    masks : bool
        Whether a dense one may hold -inf.

    Raises
    ------
    ProblemError
        If it is not of that shape, or not finite.
    """
    if is_sparse(values):
        if np.iscomplexobj(values):
            raise ProblemError(f"{name} is not an array of real numbers: it is complex")
        matrix: Any = sparse.csr_array(values, dtype=np.float64, copy=True)
        matrix.sum_duplicates()
        fine = np.isfinite(entries := matrix.data)
    else:
        entries = matrix = as_float64(name, values)
        fine = np.isfinite(entries) | (np.isneginf(entries) & masks)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ProblemError(f"{name} has shape {matrix.shape}; it needs two axes, neither of them empty")
    if not fine.all():
        raise ProblemError(f"{name} holds {entries[~fine][0]}; its entries are finite numbers")
    return matrix


def _totals(matrix: Any) -> FloatArray:
    """Sum of each row; of numbers near the largest there are it may be infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(matrix.sum(axis=1))


def row_tokens(name: str, shape: tuple[int, int], tokens: Any) -> IntArray:
    """The token of each row of a matrix (k, V), None for all in order, or a `ProblemError` that names the matrix."""
    count, vocab = shape
    if tokens is None:
        if count != vocab:
            raise ProblemError(
                f"{name} has {count} rows and {vocab} columns; name in tokens which token each row is for"
            )
        return np.arange(vocab)
    ids = as_ids("tokens", tokens, vocab)
    if ids.size != count:
        raise ProblemError(f"tokens name {ids.size} rows, and {name} has {count}")
    return ids

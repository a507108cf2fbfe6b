"""Affinities that were estimated: what was counted or measured, where it came from, and its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from otspec.errors import DataError, ProblemError
from otspec.laws import FloatArray, IntArray, as_count, likeliest
from otspec.vocab.affinity import affinity_from_counts, as_matrix, as_temperature, row_tokens, softmax_of_stored
from otspec.vocab.counting import PairCounts
from otspec.vocab.matrices import Affinity, sparse_rows
from otspec.vocab.moments import Moments
from otspec.vocab.tensors import Arrays, read_tensors, write_tensors

FORMAT = "an affinity of otspec"


@dataclass(frozen=True, eq=False)
class Estimate:
    """Counts of pairs of tokens, or their covariances, sparse; an `Affinity` at any temperature.

    Examples
    --------
    >>> from otspec.vocab import Estimate, PairCounts
    >>> pairs = PairCounts(vocab=4, window=1)
    >>> pairs.add([0, 1, 0, 2])
    >>> estimate = Estimate.of(pairs, tau=1.0, about={"source": "a text of four tokens"})
    >>> print(estimate.tokens, estimate.level)  # token 3 was not seen, and has no row
    [0 1 2] [2. 1. 1. 0.]
    >>> print(estimate.affinity().rows(0, 1).round(2))  # where token 0's mass goes
    [[0.4 0.4 0.2 0. ]]
    """

    kind: str
    """``"counts"`` or ``"covariance"``."""
    tokens: IntArray
    """Ids of the tokens that have a row, shape (k,)."""
    matrix: Any
    """Sparse array of float64, shape (k, V).  What is not stored has no affinity at all, of whichever kind."""
    level: FloatArray
    """Shape (V,): occurrences of each token in the texts, or the mean of its samples."""
    tau: float
    """Temperature to use by default."""
    about: Mapping[str, Any]
    """Where it comes from, fit for JSON: source, tokens or samples seen, window."""

    @classmethod
    def of(cls, found: PairCounts | Moments, tau: float, about: Mapping[str, Any]) -> Estimate:
        """What was found in a stream; tokens that were never seen have no row.

        Raises
        ------
        ProblemError
            If tau is not > 0, or there is nothing to estimate from: no token with a row was seen, or one sample.
        """
        tau = as_temperature(tau)
        if isinstance(found, Moments):
            covariance = found.covariance()
            count, vocab = covariance.shape
            columns = np.tile(np.arange(vocab), count)
            matrix = sparse_rows(covariance.ravel(), columns, np.arange(count + 1) * vocab, vocab)
            return cls(found.kind, found.tokens, matrix, found.mean, tau, {**about, "samples": found.seen})
        counts = found.matrix()
        seen = np.flatnonzero(np.diff(counts.indptr))
        if not seen.size:
            raise ProblemError(f"none of the tokens with a row is among the {found.seen} tokens of the texts")
        provenance = {**about, "window": found.window, "seen": found.seen}
        matrix, level = counts[seen].astype(np.float64), found.occurrences.astype(np.float64)
        return cls(found.kind, found.tokens[seen], matrix, level, tau, provenance)

    def affinity(self, tau: float | None = None) -> Affinity:
        """The row-stochastic matrix at a temperature, that of the estimate by default; see `otspec.vocab.rdk`.

        Raises
        ------
        ProblemError
            If tau is not > 0.
        """
        tau = self.tau if tau is None else as_temperature(tau)
        if self.kind == PairCounts.kind:
            return affinity_from_counts(self.matrix, tau, tokens=self.tokens)
        return softmax_of_stored(self.matrix, self.matrix.data, tau, self.tokens)

    def nearest(self, count: int) -> Estimate:
        """The `count` largest entries of every row alone.

        At every temperature ``nearest(count).affinity()`` is ``affinity().nearest(count)``: a row of M has its largest
        entries where its covariances or counts are largest.

        Raises
        ------
        ProblemError
            If count is not a positive integer.
        """
        count = as_count("count", count)
        matrix, chosen = self.matrix, []
        for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
            chosen.append(start + np.sort(likeliest(matrix.data[start:stop], min(count, stop - start))))
        places = np.concatenate(chosen)
        ends = np.cumsum([0, *(some.size for some in chosen)])
        fewer = sparse_rows(matrix.data[places], matrix.indices[places], ends, matrix.shape[1])
        return replace(self, matrix=fewer, about={**self.about, "nearest": count})

    def save(self, path: Path | str) -> None:
        """Write it to a safetensors file, whole or not at all.

        Raises
        ------
        MissingExtra
            If safetensors is not installed.
        """
        arrays: Arrays = {
            "tokens": self.tokens,
            "ends": self.matrix.indptr.astype(np.int64),
            "columns": self.matrix.indices.astype(np.int32),
            "values": self.matrix.data,
            "level": self.level,
        }
        write_tensors(Path(path), arrays, {**self.about, "format": FORMAT, "kind": self.kind, "tau": self.tau})


def load_estimate(path: Path | str) -> Estimate:
    """Read what `Estimate.save` or `otspec affinity` wrote.

    Raises
    ------
    DataError
        If there is no such file, or it is damaged or holds something else.
    MissingExtra
        If safetensors is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from otspec.vocab import Estimate, PairCounts, load_estimate
    >>> pairs = PairCounts(vocab=3, window=1)
    >>> pairs.add([0, 1, 0, 2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Estimate.of(pairs, tau=1.0, about={"source": "four tokens"}).save(f"{folder}/affinity.safetensors")
    ...     back = load_estimate(f"{folder}/affinity.safetensors")
    >>> print(back.kind, back.about)
    counts {'source': 'four tokens', 'window': 1, 'seen': 4}
    """
    arrays, about = read_tensors(Path(path), FORMAT)
    try:
        level, tokens = arrays["level"], arrays["tokens"]
        matrix = sparse_rows(arrays["values"], arrays["columns"], arrays["ends"], level.size)
        matrix.check_format(full_check=True)
        row_tokens("values", matrix.shape, tokens)
        kind, tau = about.pop("kind"), as_temperature(about.pop("tau"))
        if kind not in (PairCounts.kind, Moments.kind) or not np.diff(matrix.indptr).all():
            raise ValueError(f"of kind {kind!r}, with {np.diff(matrix.indptr).min()} entries in a row")
        del about["format"]
        return Estimate(kind, tokens, as_matrix("values", matrix), level, tau, about)
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise DataError(f"{path} cannot be read: {type(error).__name__}: {error}") from error


def load_affinity(path: Path | str, tau: float | None = None) -> Affinity:
    """The matrix M for `otspec.vocab.rdk`, from a file that `otspec affinity` wrote.

    Parameters
    ----------
    path : Path or str
        The file.
    tau : float, optional
        Temperature; by default the one that the file names.

    Raises
    ------
    DataError
        As in `load_estimate`.
    ProblemError
        If tau is not > 0.
    MissingExtra
        If safetensors is not installed.

    Examples
    --------
    >>> import tempfile
    >>> from otspec.vocab import Estimate, PairCounts, load_affinity
    >>> pairs = PairCounts(vocab=3, window=1)
    >>> pairs.add([0, 1, 0, 2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Estimate.of(pairs, tau=1.0, about={}).save(f"{folder}/affinity.safetensors")
    ...     matrix = load_affinity(f"{folder}/affinity.safetensors")
    >>> print(matrix.redistribute([0.0, 1.0, 0.0]))
    [0.66666667 0.33333333 0.        ]
    """
    return load_estimate(path).affinity(tau)

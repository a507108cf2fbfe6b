"""Which tokens a drafter keeps."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import IntArray, as_count, as_float64, likeliest


def frequency_prune(frequencies: Any, size: int) -> IntArray:
    """The tokens that frequency-ranked pruning keeps [zhao2025frspec; timor2025out, Algorithm 3].

    The pruned drafter has the rows ``head[kept]`` of the head matrix; `embed` puts its law back on all tokens.

    Parameters
    ----------
    frequencies : array_like, shape (V,)
        How often each token occurs in a data set, as counts (``np.bincount(text, minlength=V)``) or shares.
    size : int
        Number of tokens to keep.

    Returns
    -------
    ndarray of int, shape (size,)
        Their ids, by decreasing frequency, at ties the lowest first.

    Raises
    ------
    ProblemError
        If the frequencies are not (V,), finite and >= 0, or size is not in 1 .. V.

    Examples
    --------
    >>> from otspec.vocab import frequency_prune
    >>> print(frequency_prune([3, 9, 1, 5], 2))  # ids of the two most frequent tokens
    [1 3]
    """
    counts, size = as_float64("frequencies", frequencies), as_count("size", size)
    if counts.ndim != 1 or counts.size == 0:
        raise ProblemError(f"frequencies have shape {counts.shape}; one for each token makes (V,), V >= 1")
    if not (np.isfinite(counts).all() and counts.min() >= 0):
        token = int(np.argmax(~(np.isfinite(counts) & (counts >= 0))))
        raise ProblemError(f"frequencies[{token}] is {counts[token]:.6g}; frequencies are finite and >= 0")
    if size > counts.size:
        raise ProblemError(f"size is {size}, and there are {counts.size} tokens; keep at most all of them")
    return likeliest(counts, size)

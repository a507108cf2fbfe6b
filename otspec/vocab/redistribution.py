"""Redistributing drafter kernels: draft mass moved to the tokens that the drafter lacks."""

from __future__ import annotations

from typing import Any

from otspec.laws import FloatArray, as_count
from otspec.vocab.acceptance import pair
from otspec.vocab.affinity import affinity_from_matrix
from otspec.vocab.matrices import Affinity


def rdk(q: Any, affinity: Any) -> FloatArray:
    """Redistributed draft law M^T q' [timor2025out, Algorithm 1].

    q' is q cut down to the tokens with a row in M, renormalised (`tli`).  A draft from the result is a draft from q',
    replaced by a token from its row.  Any such law is verified losslessly, as long as the verifier gets this law and
    not q.  Whether it accepts more than q' depends on M: at most |M^T p - p|_1 / 2 less (Theorem 5.1), and nothing
    promises more.

    Parameters
    ----------
    q : array_like, shape (..., V)
        Draft laws, checked and scaled as in `otspec.laws.as_law`.
    affinity : Affinity, or array or sparse array of shape (V, V)
        The row-stochastic matrix M; see `otspec.vocab.affinity`.  An array is checked at every call, an `Affinity` was
        checked when it was made.

    Returns
    -------
    ndarray, shape (..., V)

    Raises
    ------
    ProblemError
        If q is not a law, or M is not row-stochastic, for another vocabulary, or has no row for any token of q.

    Examples
    --------
    >>> from otspec.vocab import rdk
    >>> matrix = [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]  # half of token 0's mass goes to token 1
    >>> print(rdk([0.6, 0.1, 0.3], matrix))
    [0.3 0.4 0.3]
    """
    matrix = affinity if isinstance(affinity, Affinity) else affinity_from_matrix(affinity)
    return matrix.redistribute(q)


def rdk_linear(p: Any, q: Any, size: int | None = None) -> FloatArray:
    """The linear-time formula that is meant to approximate RDK [timor2025out, eq. (3)], as printed.

    (N q' + theta p) / (N + p), normalised, with theta the sum of p q' and N the number of the target's tokens.  It
    needs p, which no drafter knows before verification; and it is within 2 theta / N of q' in L1 distance, so that its
    acceptance is that of q' to within theta / N.  It is here to check statements about it; `docs/vocab.md` has
    proofs.

    Parameters
    ----------
    p, q : array_like, shape (..., V)
        Target law and intersected draft law q', checked and scaled as in `otspec.laws.as_law`; leading axes broadcast.
    size : int, optional
        N, where the target has fewer tokens than there are in the arrays; default V.

    Returns
    -------
    ndarray, shape (..., V)

    Raises
    ------
    ProblemError
        If one is not a law, they are for different numbers of tokens, or size is not a positive integer.

    Examples
    --------
    >>> from otspec.vocab import rdk_linear
    >>> print(rdk_linear([0.1, 0.2, 0.7], [0.6, 0.1, 0.3]).round(3))  # hardly another law than q
    [0.59  0.112 0.298]
    """
    p, q = pair(p, q)
    count = p.shape[-1] if size is None else as_count("size", size)
    theta = (p * q).sum(axis=-1, keepdims=True)
    moved = (count * q + theta * p) / (count + p)
    return moved / moved.sum(axis=-1, keepdims=True)

"""What a draft law accepts, and what it wastes."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray, as_laws
from otspec.vocab.intersection import check_leading_axes


def acceptance_rate(p: Any, q: Any) -> FloatArray:
    """Probability that one draft from q is accepted: the sum of min(p, q) [timor2025out, Definition 2.1].

    Parameters
    ----------
    p, q : array_like, shape (..., V)
        Target and draft laws, checked and scaled as in `otspec.laws.as_law`; leading axes broadcast.

    Returns
    -------
    ndarray, shape (...)

    Raises
    ------
    ProblemError
        If one is not a law, or they are for different numbers of tokens.

    Examples
    --------
    >>> from otspec.vocab import acceptance_rate
    >>> print(f"{acceptance_rate([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]):.2f}")  # sum of min(p, q)
    0.70
    """
    p, q = pair(p, q)
    return np.minimum(p, q).sum(axis=-1)


def drafter_kernel(p: Any, q: Any) -> FloatArray:
    """The part of q that verification rejects, max(0, q - p) [timor2025out, Definition 2.2].

    Its sum is 1 - `acceptance_rate` (Lemma 2.3).  Whatever part of it is moved, to whichever tokens, the acceptance
    does not fall; mass of q that is not in the kernel is accepted for sure, and moving that can lose.

    Parameters
    ----------
    p, q : array_like, shape (..., V)
        As in `acceptance_rate`.

    Returns
    -------
    ndarray, shape (..., V)

    Raises
    ------
    ProblemError
        As in `acceptance_rate`.

    Examples
    --------
    >>> from otspec.vocab import drafter_kernel
    >>> print(drafter_kernel([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]).round(2))  # what q has too much of
    [0.  0.  0.3]
    """
    p, q = pair(p, q)
    return np.maximum(q - p, 0.0)


def pair(p: Any, q: Any) -> tuple[FloatArray, FloatArray]:
    """Target and draft laws over one vocabulary, shape (..., V), checked.

    Raises
    ------
    ProblemError
        As in `acceptance_rate`.
    """
    p, q = as_laws("p", p), as_laws("q", q)
    if p.shape[-1] != q.shape[-1]:
        raise ProblemError(
            f"p has {p.shape[-1]} tokens and q {q.shape[-1]}; both need one vocabulary. "
            "A draft law over tokens of its own? See otspec.vocab.embed."
        )
    check_leading_axes(p=p.shape, q=q.shape)
    return p, q

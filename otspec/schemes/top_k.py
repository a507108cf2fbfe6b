"""Top-n drafts: deterministic."""

from __future__ import annotations

import numpy as np

from otspec.laws import ArrayLike, as_count, as_distinct_law, likeliest
from otspec.schemes.fixed_plus_one import FixedPlusOne


class TopK(FixedPlusOne):
    """The n likeliest tokens of q, always: the siblings of the draft trees of EAGLE-2 and EAGLE-3 [li2024eagle2].

    Nothing is random, so q serves to rank tokens and plays no part in the verification.  The optimal rule draws the
    output from p and accepts if it is a draft; its acceptance is p(drafts).

    Parameters
    ----------
    q : array_like, shape (V,)
        Draft next-token probabilities, checked and scaled as in `otspec.laws.as_law`.
    n : int
        Drafts per position, >= 1.  Of tokens that tie for a place, the lowest ids get it.

    Raises
    ------
    ProblemError
        If q is not a law, n is not a positive integer, or fewer than n tokens have a probability above 0.

    Examples
    --------
    >>> import otspec
    >>> print(otspec.TopK([0.2, 0.3, 0.5], n=2).sample(0))
    [2 1]
    """

    def __init__(self, q: ArrayLike, n: int) -> None:
        n = as_count("n", n)
        law = as_distinct_law("q", q, n)
        tokens = likeliest(law, n)
        last = np.zeros_like(law)
        last[tokens[-1]] = 1.0
        super().__init__(tokens[:-1], last)

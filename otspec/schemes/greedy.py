"""Greedy drafts: the likeliest tokens, and one draw from the rest."""

from __future__ import annotations

from otspec.laws import ArrayLike, as_count, as_distinct_law, likeliest
from otspec.schemes.fixed_plus_one import FixedPlusOne


class Greedy(FixedPlusOne):
    """The n - 1 likeliest tokens of q, and one drawn from the rest of q, renormalised [hu2025towards].

    Its optimal transport is single-draft verification against the law of the last draft; the target's mass on the
    likeliest tokens is always accepted.  At n = 2 its draft sets are those of SpecHub [sun2024spechub], in law as well,
    and SpecHub's rule is its optimal one.  At n = 1 it is a single draft from q.

    Parameters
    ----------
    q : array_like, shape (V,)
        Draft next-token probabilities, checked and scaled as in `otspec.laws.as_law`.
    n : int
        Drafts per position, >= 1.  Of tokens that tie for a place among the likeliest, the lowest ids get it.

    Raises
    ------
    ProblemError
        If q is not a law, n is not a positive integer, or fewer than n tokens have a probability above 0.

    Examples
    --------
    >>> import otspec
    >>> scheme = otspec.Greedy([0.2, 0.3, 0.5], n=2)  # token 2, and one of the others
    >>> print(f"{scheme.prob([2, 0]):.2f} {scheme.prob([2, 1]):.2f}")
    0.40 0.60
    """

    def __init__(self, q: ArrayLike, n: int) -> None:
        n = as_count("n", n)
        law = as_distinct_law("q", q, n)
        fixed = likeliest(law, n - 1)
        rest = law.copy()
        rest[fixed] = 0.0
        super().__init__(fixed, rest / rest.sum())

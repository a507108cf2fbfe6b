"""n independent drafts, each from a law of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from otspec.errors import ProblemError
from otspec.jit import jit
from otspec.laws import (
    ArrayLike,
    FloatArray,
    IntArray,
    Seed,
    as_drafts,
    as_float64,
    as_generator,
    as_law,
    draw_from_cumulative,
)
from otspec.schemes.draft_sets import PAD, DraftSets, check_listable
from otspec.schemes.protocol import DraftScheme, Support


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Independent(DraftScheme):
    """n independent drafts, draft l from its own law q_l [thomas2025global, Table 5, "distinct drafts"].

    Used where several draft models, or one at several temperatures, propose a token each.  The hit function is
    f(A) = 1 - prod over l of (1 - q_l(A)).  `IID` is the case of equal laws.  With distinct ones no order of the tokens
    is known along which a prefix is always optimal: at p = (.1, .6, .1, .2), q_1 = (0, .5, .25, .25) and
    q_2 = (.15, .2, .45, .2) the prefixes by decreasing p / max(q_1, q_2) miss alpha* by 0.0125.

    Parameters
    ----------
    qs : array_like, shape (n, V)
        A law in each row, checked and scaled as in `otspec.laws.as_law`.

    Raises
    ------
    ProblemError
        If qs is not (n, V) with n >= 1, or a row is not a law.

    Examples
    --------
    >>> import otspec
    >>> scheme = otspec.Independent([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]])  # two drafters, a draft of each
    >>> print(f"{scheme.prob([2, 0]):.2f} {scheme.prob([0, 2]):.2f}")
    0.30 0.00
    """

    qs: FloatArray
    n: int
    vocab: int

    def __init__(self, qs: ArrayLike) -> None:
        rows = as_float64("qs", qs)
        if rows.ndim != 2 or rows.shape[0] == 0:
            raise ProblemError(f"qs has shape {rows.shape}; n laws over V tokens have shape (n, V), n >= 1")
        laws = np.stack([as_law(f"qs[{draft}]", law) for draft, law in enumerate(rows)])
        laws.flags.writeable = False
        object.__setattr__(self, "qs", laws)
        object.__setattr__(self, "n", laws.shape[0])
        object.__setattr__(self, "vocab", laws.shape[1])

    @cached_property
    def _cumulative(self) -> FloatArray:
        return np.cumsum(self.qs, axis=1)

    def sample(self, rng: Seed, size: int | None = None) -> IntArray:
        rng = as_generator(rng)
        return np.stack([draw_from_cumulative(cumulative, rng, size) for cumulative in self._cumulative], axis=-1)

    def prob(self, drafts: IntArray) -> FloatArray:
        return np.prod(self.qs[np.arange(self.n), as_drafts(drafts, self.n, self.vocab)], axis=-1)

    def hit_chain(self, order: IntArray) -> FloatArray:
        inside = np.zeros((self.n, self.vocab + 1))
        np.minimum(np.cumsum(self.qs[:, order], axis=1), 1.0, out=inside[:, 1:])
        inside[:, -1] = 1.0
        with np.errstate(divide="ignore"):  # log(1 - 1): a draft lies inside for sure
            return -np.expm1(np.log1p(-inside).sum(axis=0))

    def priority_law(self, order: IntArray) -> FloatArray:
        law = np.empty(self.vocab)
        law[order[::-1]] = product_increments(self.qs[:, order[::-1]])
        return law

    def reachable(self) -> IntArray:
        return np.flatnonzero(self.qs.any(axis=0))

    def compact(self) -> Independent:
        return Independent(np.pad(self.qs[:, self.reachable()], ((0, 0), (0, 1))))

    def support_size(self) -> int:
        size = 1
        for law in self.qs:
            size *= int(np.count_nonzero(law))
        return size

    def support(self) -> Support:
        check_listable(self.support_size(), self.n, "tuples")
        grid = np.meshgrid(*(np.flatnonzero(law) for law in self.qs), indexing="ij")
        drafts = np.stack(grid, axis=-1).reshape(-1, self.n)
        return Support.of(drafts, self.prob(drafts))

    def set_count(self) -> int:
        if self.n != 2:
            return self.support_size()
        tokens = self.reachable().size
        return min(self.support_size(), tokens * (tokens + 1) // 2)

    def draft_sets(self) -> DraftSets:
        if self.n != 2:
            return DraftSets.of_support(*self.support())
        check_listable(self.set_count(), self.n, "sets")
        tokens = self.reachable()
        masses = self.pair_masses()
        low, high = np.triu_indices(tokens.size)
        mass = masses[low, high]
        sets = np.column_stack((tokens[low], np.where(low == high, PAD, tokens[high])))
        occurs = mass > 0
        return DraftSets(sets[occurs], mass[occurs])

    def pair_masses(self) -> FloatArray:
        """P(the two drafts form {i, j}), shape (k, k) over the k tokens that can be drafted, where n is 2."""
        first, second = self.qs[:, self.reachable()]
        ordered = np.outer(first, second)
        masses = ordered + ordered.T
        np.fill_diagonal(masses, ordered.diagonal())
        return masses

    def first_draft(self) -> FloatArray:
        return self.qs[0]

    def inclusion(self) -> FloatArray:
        with np.errstate(divide="ignore"):  # log(1 - 1): a token of probability 1 is drawn for sure
            return -np.expm1(np.log1p(-self.qs).sum(axis=0))


@jit
def product_increments(qs: FloatArray) -> FloatArray:
    """prod over l of C_l,i minus prod over l of C_l,i-1, for the cumulative sums C_l of n laws.

    As in `power_increments`, which is the case of equal rows, the literal difference would lose what is smaller than an
    ulp of the product.  The sum over l of q_l,i * prod_{m<l} C_m,i-1 * prod_{m>l} C_m,i has positive terms only.

    Parameters
    ----------
    qs : ndarray, shape (n, k)
        Probabilities of k tokens under each law, in the order in which they are added up.

    Returns
    -------
    ndarray, shape (k,)
        What each token adds to the probability that all n drafts are among the tokens so far.
    """
    n, size = qs.shape
    increments = np.empty(size)
    below = np.zeros(n)
    for i in range(size):
        total = 0.0
        product = 1.0
        for draft in range(n):
            above = min(below[draft] + qs[draft, i], 1.0)
            total = total * above + qs[draft, i] * product
            product *= below[draft]
            below[draft] = above
        increments[i] = total
    return increments

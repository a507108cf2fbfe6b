"""Drafts of which only the last is random: greedy drafts and top-n drafts."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from otspec.laws import FloatArray, IntArray, Seed, as_drafts, as_generator, draw_from_cumulative, falling_ratio
from otspec.schemes.protocol import DraftScheme, Support


@dataclass(frozen=True, eq=False, repr=False)
class FixedPlusOne(DraftScheme):
    """n - 1 tokens that are always drafted, and one more drawn from a law over the others.

    The hit function is f(A) = 1 where A holds a fixed token, and last(A) elsewhere.  The base of `Greedy` and `TopK`,
    which build it from a draft law and check what they are given.

    Parameters
    ----------
    fixed : ndarray of int, shape (n - 1,)
        Tokens always drafted, in the order of drafting.
    last : ndarray, shape (V,)
        Law of the last draft, 0 on the fixed tokens.

    Examples
    --------
    >>> import otspec
    >>> from otspec.schemes import FixedPlusOne
    >>> drafts = otspec.Greedy([0.2, 0.3, 0.5], n=2)
    >>> print(isinstance(drafts, FixedPlusOne), drafts.fixed, drafts.last)
    True [2] [0.4 0.6 0. ]
    """

    fixed: IntArray
    last: FloatArray
    n: int = field(init=False)
    vocab: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", self.fixed.size + 1)
        object.__setattr__(self, "vocab", self.last.size)
        for values in (self.fixed, self.last):
            values.flags.writeable = False

    @cached_property
    def _cumulative(self) -> FloatArray:
        return np.cumsum(self.last)

    def _with_last(self, tokens: IntArray) -> IntArray:
        """The tuples that end in the given tokens."""
        fixed = np.broadcast_to(self.fixed, (*tokens.shape, self.fixed.size))
        return np.concatenate((fixed, tokens[..., None]), axis=-1)

    def sample(self, rng: Seed, size: int | None = None) -> IntArray:
        rng = as_generator(rng)
        return self._with_last(np.asarray(draw_from_cumulative(self._cumulative, rng, size)))

    def prob(self, drafts: IntArray) -> FloatArray:
        drafts = as_drafts(drafts, self.n, self.vocab)
        return np.where((drafts[..., :-1] == self.fixed).all(axis=-1), self.last[drafts[..., -1]], 0.0)

    def hit_chain(self, order: IntArray) -> FloatArray:
        chain = np.concatenate(([0.0], np.minimum(np.cumsum(self.last[order]), 1.0)))
        chain[self._first_fixed(order) + 1 :] = 1.0
        chain[-1] = 1.0
        return chain

    def priority_law(self, order: IntArray) -> FloatArray:
        law = np.zeros(self.vocab)
        first = self._first_fixed(order)
        law[order[:first]] = self.last[order[:first]]
        if first < self.vocab:
            law[order[first]] = self.last[order[first:]].sum()
        return law

    def _first_fixed(self, order: IntArray) -> int:
        """Where in the order the first fixed token stands; V if there is none."""
        is_fixed = np.zeros(self.vocab, dtype=bool)
        is_fixed[self.fixed] = True
        return int(is_fixed[order].argmax()) if self.fixed.size else self.vocab

    def reachable(self) -> IntArray:
        return np.union1d(self.fixed, np.flatnonzero(self.last))

    def compact(self) -> FixedPlusOne:
        tokens = self.reachable()
        return FixedPlusOne(np.searchsorted(tokens, self.fixed), np.append(self.last[tokens], 0.0))

    def support_size(self) -> int:
        return int(np.count_nonzero(self.last))

    def support(self) -> Support:
        tokens = np.flatnonzero(self.last)
        return Support(self._with_last(tokens), self.last[tokens])

    def prefix_order(self, p: FloatArray) -> IntArray:
        """All tokens, shape (V,), by decreasing p/last, fixed tokens at the end.

        A segment of the convex minorant belongs to a slope s and to the sets A that minimise f(A) - s p(A).  If A holds
        a fixed token, f(A) = 1, and no A is better than the whole vocabulary, which is a prefix.  Otherwise
        f(A) - s p(A) is the sum over A of last - s p, smallest for the A of all tokens with p/last > 1/s that are not
        fixed: a prefix as well.
        """
        order = falling_ratio(p, self.last)
        is_fixed = np.isin(order, self.fixed)
        return np.concatenate((order[~is_fixed], order[is_fixed]))

    def first_draft(self) -> FloatArray:
        if self.n == 1:
            return self.last
        law = np.zeros(self.vocab)
        law[self.fixed[0]] = 1.0
        return law

    def inclusion(self) -> FloatArray:
        inclusion = self.last.copy()
        inclusion[self.fixed] = 1.0
        return inclusion

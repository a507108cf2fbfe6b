"""What the rest of the package requires of a draft scheme."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from otspec.laws import FloatArray, IntArray, Seed, sum_by
from otspec.schemes.draft_sets import DraftSets


class Support(NamedTuple):
    """Every tuple of drafts that can occur, in the order of drawing, with its probability.

    Examples
    --------
    >>> import otspec
    >>> support = otspec.WithoutReplacement([0.2, 0.3, 0.5], n=2).support()
    >>> for drafts, probability in zip(*support):
    ...     print(drafts, f"{probability:.3f}")
    [0 1] 0.075
    [0 2] 0.125
    [1 0] 0.086
    [1 2] 0.214
    [2 0] 0.200
    [2 1] 0.300
    """

    drafts: IntArray
    """Shape (m, n)."""
    probabilities: FloatArray
    """Shape (m,)."""

    @classmethod
    def of(cls, drafts: IntArray, probabilities: FloatArray) -> Support:
        """Those of some tuples, shapes (m, n) and (m,), that can occur: products of tiny probabilities underflow."""
        occurs = probabilities > 0
        return cls(drafts[occurs], probabilities[occurs])

    def priority_law(self, order: IntArray) -> FloatArray:
        """Law, shape (V,), of the draft that comes first in an order of all tokens, shape (V,)."""
        rank = np.empty(order.size, dtype=np.int64)
        rank[order] = np.arange(order.size)
        return sum_by(order[rank[self.drafts].min(axis=1)], self.probabilities, order.size)

    def hit_chain(self, order: IntArray) -> FloatArray:
        """Hit probabilities, shape (V + 1,), of the prefixes of an order of all tokens, shape (V,)."""
        return np.concatenate(([0.0], np.minimum(np.cumsum(self.priority_law(order)[order]), 1.0)))


@runtime_checkable
class DraftScheme(Protocol):
    """The law of n drafted tokens.

    A new scheme subclasses this protocol, writes the abstract methods, and overrides the others where it knows
    something faster or more precise.  Its *hit function* f(A) = P(some draft lies in the token set A) decides the
    optimum; `hit_chain` is f along the prefixes of an order.

    Examples
    --------
    Every scheme has its sizes and the tokens that it can draft:

    >>> import otspec
    >>> schemes = otspec.IID([0.5, 0.5], 2), otspec.TopK([0.5, 0.3, 0.2], 2)
    >>> [(scheme.n, scheme.vocab, scheme.reachable().tolist()) for scheme in schemes]
    [(2, 2, [0, 1]), (2, 3, [0, 1])]

    A scheme of your own is a subclass; `otspec.check_scheme` checks whether its methods agree.
    """

    n: int
    """Drafts per position, >= 1."""
    vocab: int
    """Number of tokens V, >= 1."""

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"<{kind}: n = {self.n} of {self.reachable().size} tokens, V = {self.vocab}; draw with sample(rng)>"

    @abstractmethod
    def sample(self, rng: Seed, size: int | None = None) -> IntArray:
        """Draw one tuple of drafts, shape (n,), or `size` of them, shape (size, n).

        `rng` is a generator or the seed of a new one: start with ``rng = otspec.laws.as_generator(rng)``.
        """

    @abstractmethod
    def prob(self, drafts: IntArray) -> FloatArray:
        """Probability of ordered tuples: shape (..., n) to shape (...)."""

    @abstractmethod
    def hit_chain(self, order: IntArray) -> FloatArray:
        """Hit probabilities of the prefixes of an order of all tokens, shape (V,) to (V + 1,), from 0 to 1."""

    @abstractmethod
    def reachable(self) -> IntArray:
        """Ids of the tokens that can be drafted, shape (k,), ascending."""

    @abstractmethod
    def compact(self) -> DraftScheme:
        """The same scheme over the reachable tokens, renumbered in ascending order, plus one token never drafted."""

    @abstractmethod
    def support_size(self) -> int:
        """An upper bound on the number of tuples that `support` would list; any number above 2**60 stands for more."""

    @abstractmethod
    def support(self) -> Support:
        """Every tuple whose probability is above 0 in float64.  Meant for small problems: see `support_size` first."""

    def set_count(self) -> int:
        """An upper bound on the number of sets that `draft_sets` would list."""
        return self.support_size()

    def draft_sets(self) -> DraftSets:
        """The sets of distinct tokens that the drafts can form, with their probabilities."""
        return DraftSets.of_support(*self.support())

    def priority_law(self, order: IntArray) -> FloatArray:
        """Law, shape (V,), of the draft that comes first in an order of all tokens: a vertex of the base polytope."""
        law = np.zeros(self.vocab)
        law[order] = np.diff(self.hit_chain(order))
        return law

    def prefix_order(self, p: FloatArray) -> IntArray | None:
        """An order of all tokens along which a prefix A minimises f(A) + 1 - p(A); None where none is known.

        For such a scheme `optimum` costs one sort.  The order must also serve every segment of the convex minorant of
        f against p, as that of decreasing p/q does for i.i.d. drafts.

        Parameters
        ----------
        p : ndarray, shape (V,)
            Target law.

        Returns
        -------
        ndarray of int, shape (V,), or None
        """
        return None

    def first_draft(self) -> FloatArray | None:
        """Law of the first draft, shape (V,); None where it has to be enumerated."""
        return None

    def inclusion(self) -> FloatArray | None:
        """P(the token is one of the drafts) for every token, shape (V,); None where it has to be enumerated."""
        return None

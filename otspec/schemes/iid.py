"""n independent drafts from one law: the scheme of SpecTr and of most multi-draft theory."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from otspec.jit import jit
from otspec.laws import (
    ArrayLike,
    FloatArray,
    IntArray,
    Seed,
    as_count,
    as_drafts,
    as_generator,
    as_law,
    draw_from_cumulative,
    falling_ratio,
)
from otspec.schemes.draft_sets import COUNTED, PAD, DraftSets, check_listable
from otspec.schemes.protocol import DraftScheme, Support


@dataclass(frozen=True, eq=False, init=False, repr=False)
class IID(DraftScheme):
    """n i.i.d. drafts from q [sun2023spectr].

    Parameters
    ----------
    q : array_like, shape (V,)
        Draft next-token probabilities, checked and scaled as in `otspec.laws.as_law`.
    n : int
        Drafts per position, >= 1.

    Raises
    ------
    ProblemError
        If q is not a law or n is not a positive integer.

    Examples
    --------
    >>> import otspec
    >>> scheme = otspec.IID([0.2, 0.3, 0.5], n=2)
    >>> print(f"{scheme.prob([2, 2]):.2f}")
    0.25
    >>> [len(scheme.sample(0)), len(scheme.sample(0, size=5))]
    [2, 5]

    P(some draft lies in the set), for no token, for token 2, for tokens 2 and 1, and for all:

    >>> print(scheme.hit_chain([2, 1, 0]).round(2))
    [0.   0.75 0.96 1.  ]
    """

    q: FloatArray
    n: int
    vocab: int

    def __init__(self, q: ArrayLike, n: int) -> None:
        object.__setattr__(self, "q", as_law("q", q))
        object.__setattr__(self, "n", as_count("n", n))
        object.__setattr__(self, "vocab", self.q.size)

    @cached_property
    def _cumulative(self) -> FloatArray:
        return np.cumsum(self.q)

    def sample(self, rng: Seed, size: int | None = None) -> IntArray:
        rng = as_generator(rng)
        return draw_from_cumulative(self._cumulative, rng, (self.n,) if size is None else (size, self.n))

    def prob(self, drafts: IntArray) -> FloatArray:
        return np.prod(self.q[as_drafts(drafts, self.n, self.vocab)], axis=-1)

    def hit_chain(self, order: IntArray) -> FloatArray:
        inside = np.concatenate(([0.0], np.minimum(np.cumsum(self.q[order]), 1.0)))
        inside[-1] = 1.0
        with np.errstate(divide="ignore"):  # log(1 - 1): the whole vocabulary is hit for sure
            return -np.expm1(self.n * np.log1p(-inside))

    def priority_law(self, order: IntArray) -> FloatArray:
        # f grows by C**n - (C - q)**n, C being the mass not yet passed; see `power_increments` for why not literally.
        law = np.empty(self.vocab)
        law[order[::-1]] = power_increments(self.q[order[::-1]], self.n)
        return law

    def reachable(self) -> IntArray:
        return np.flatnonzero(self.q)

    def compact(self) -> IID:
        return IID(np.append(self.q[self.reachable()], 0.0), self.n)

    def support_size(self) -> int:
        return int(np.count_nonzero(self.q)) ** min(self.n, COUNTED)

    def support(self) -> Support:
        check_listable(self.support_size(), self.n, "tuples")
        drafts = np.array(list(itertools.product(self.reachable(), repeat=self.n)), dtype=np.int64)
        return Support.of(drafts, self.prob(drafts))

    def set_count(self) -> int:
        k = int(np.count_nonzero(self.q))
        return sum(math.comb(k, size) for size in range(1, min(k, self.n, COUNTED) + 1))

    def draft_sets(self) -> DraftSets:
        check_listable(self.set_count(), self.n, "draft sets")
        reachable = self.reachable()
        index, mass = iid_sets(self.q[reachable], self.n, self.set_count())
        occurs = mass > 0
        return DraftSets(np.append(reachable, PAD)[index[occurs]], mass[occurs])

    def prefix_order(self, p: FloatArray) -> IntArray:
        # [hu2025towards, section 4.2]; what no draft can reach goes first, where it gains nothing.
        return falling_ratio(p, self.q)

    def first_draft(self) -> FloatArray:
        return self.q

    def inclusion(self) -> FloatArray:
        with np.errstate(divide="ignore"):  # log(1 - 1): a token of probability 1 is drawn for sure
            return -np.expm1(self.n * np.log1p(-self.q))


@jit
def power_increments(q: FloatArray, n: int) -> FloatArray:
    """C_i**n - C_(i-1)**n for the cumulative sums C of q, each to a relative error of about n ulp of C.

    The literal difference loses every token smaller than an ulp of C: on realistic laws the tail of the vocabulary.
    q_i * sum_j C_i**j * C_(i-1)**(n-1-j) is the same number, and all its terms are positive.

    Parameters
    ----------
    q : ndarray, shape (k,)
        Probabilities, in the order in which they are added up.
    n : int
        The power: number of drafts.

    Returns
    -------
    ndarray, shape (k,)
        What each token adds to the probability that all n drafts are among the tokens so far.
    """
    increments = np.empty(q.size)
    below = 0.0
    for i in range(q.size):
        above = min(below + q[i], 1.0)
        total = 0.0
        power = 1.0
        for _ in range(n):  # Horner: total becomes sum over j of above**j * below**(steps - 1 - j)
            total = total * above + power
            power *= below
        increments[i] = q[i] * total
        below = above
    return increments


@jit
def iid_sets(q: FloatArray, n: int, count: int, rest: float = 0.0) -> tuple[IntArray, FloatArray]:
    """Sets of at most n of the k tokens, in lexicographic order, with the probability that n draws from q form each.

    With `rest`, the probability that the draws form the set together with any draws, perhaps none, of some other
    tokens that have this mass among them: a term of the outer system [thomas2025global, eq. (117)].

    Parameters
    ----------
    q : ndarray, shape (k,)
        Positive probabilities.
    n, count : int
        Draws, and the number of sets, sum over 1 <= s <= n of binomial(k, s).
    rest : float
        Mass of the other tokens.

    Returns
    -------
    index : ndarray, shape (count, n)
        Ascending positions in q, filled with `PAD`.
    mass : ndarray, shape (count,)
        W(s, n), where W(s, t) = sum over r >= 1 of binomial(t, r) * q_s**r * W(s - 1, t - r) and W(0, t) = rest**t
        counts the ways in which t labelled draws cover exactly the first s tokens of the set.  All terms are positive,
        so nothing cancels as it would in inclusion-exclusion.
    """
    k = q.size
    index = np.full((count, n), PAD, dtype=np.int64)
    mass = np.empty(count)
    binomial = np.zeros((n + 1, n + 1))
    for t in range(n + 1):
        binomial[t, 0] = 1.0
        for r in range(1, t + 1):
            binomial[t, r] = binomial[t - 1, r - 1] + binomial[t - 1, r]
    ways = np.zeros((n + 1, n + 1))
    ways[0, 0] = 1.0
    for t in range(1, n + 1):
        ways[0, t] = ways[0, t - 1] * rest
    chosen = np.empty(n, dtype=np.int64)
    size = 0
    token = 0
    row = 0
    while True:
        if token < k and size < n:
            chosen[size] = token
            size += 1
            for t in range(n + 1):
                ways[size, t] = 0.0
                power = 1.0
                for r in range(1, t + 1):
                    power *= q[token]
                    ways[size, t] += binomial[t, r] * power * ways[size - 1, t - r]
            index[row, :size] = chosen[:size]
            mass[row] = ways[size, n]
            row += 1
            token += 1
        elif size == 0:
            return index, mass
        else:
            size -= 1
            token = chosen[size] + 1

"""n distinct drafts from one law: tokens drawn one after the other, each time from what is left."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from otspec.errors import ProblemError
from otspec.jit import jit
from otspec.kernels.arrivals import Nodes, hit_increments
from otspec.laws import ArrayLike, BoolArray, FloatArray, IntArray, Seed, as_count, as_drafts, as_generator, as_law
from otspec.schemes.draft_sets import COUNTED, DraftSets, check_listable
from otspec.schemes.protocol import DraftScheme, Support

CHUNK = 1 << 20
"""Random numbers that `sample` holds at once."""


@dataclass(frozen=True, eq=False, init=False, repr=False)
class WithoutReplacement(DraftScheme):
    """n drafts from q without replacement: P(w) = prod over i of q(w_i) / (1 - q(w_1) - ... - q(w_(i-1))).

    This is how recursive rejection without replacement and the tree drafters built on it draw [jeon2024recursive].

    Parameters
    ----------
    q : array_like, shape (V,)
        Draft next-token probabilities, checked and scaled as in `otspec.laws.as_law`.
    n : int
        Drafts per position, >= 1.

    Raises
    ------
    ProblemError
        If q is not a law, n is not a positive integer, or fewer than n tokens have q > 0: they cannot all differ then.

    Examples
    --------
    >>> import otspec
    >>> scheme = otspec.WithoutReplacement([0.2, 0.3, 0.5], n=2)
    >>> print(f"{scheme.prob([2, 0]):.2f} {scheme.prob([2, 2]):.2f}")  # 0.5 * 0.2 / (1 - 0.5), and no repeats
    0.20 0.00
    """

    q: FloatArray
    n: int
    vocab: int

    def __init__(self, q: ArrayLike, n: int) -> None:
        object.__setattr__(self, "q", as_law("q", q))
        object.__setattr__(self, "n", as_count("n", n))
        object.__setattr__(self, "vocab", self.q.size)
        possible = int(np.count_nonzero(self.q))
        if possible < self.n:
            raise ProblemError(
                f"n is {self.n}, but q > 0 for {possible} tokens only, and without replacement all drafts differ; "
                "draw fewer, or soften q (a larger top-k, a higher temperature)"
            )

    @cached_property
    def _likeliest(self) -> IntArray:
        """The n - 1 likeliest tokens: what has to be left out for the least to remain."""
        return np.argpartition(self.q, self.vocab - self.n)[self.vocab - self.n + 1 :]

    @cached_property
    def heavy(self) -> BoolArray:
        """Shape (V,): the n - 1 likeliest tokens, as `otspec.kernels.arrivals` treats them."""
        heavy = np.zeros(self.vocab, dtype=bool)
        heavy[self._likeliest] = True
        return heavy

    @cached_property
    def nodes(self) -> Nodes:
        """Quadrature for the time of the last draft."""
        return Nodes.of(self.q[self.reachable()], self.n)

    @cached_property
    def _light(self) -> float:
        return float(self.q[~self.heavy].sum())

    def _mass_without(self, tokens: IntArray) -> FloatArray:
        """1 - q(tokens) for up to n - 1 distinct tokens, shape (..., m) to (...), to a few ulp however small.

        A sum over the other tokens.  At least as many of the likeliest remain as others are taken from the rest, so the
        subtraction below loses no more than two bits.
        """
        same = tokens[..., None] == self._likeliest
        undrawn = (~same.any(axis=-2) * self.q[self._likeliest]).sum(axis=-1)
        taken = (~same.any(axis=-1) * self.q[tokens]).sum(axis=-1)
        return self._light + undrawn - taken

    def sample(self, rng: Seed, size: int | None = None) -> IntArray:
        rng = as_generator(rng)
        # The n first of exponential clocks of rates q, on a logarithmic scale.
        reachable = self.reachable()
        log_q = np.log(self.q[reachable])
        rows = 1 if size is None else size
        drafts = np.empty((rows, self.n), dtype=np.int64)
        step = max(CHUNK // reachable.size, 1)
        for start in range(0, rows, step):
            head_start = log_q + rng.gumbel(size=(min(step, rows - start), reachable.size))
            first = np.argpartition(head_start, reachable.size - self.n, axis=1)[:, reachable.size - self.n :]
            arrival = np.argsort(-np.take_along_axis(head_start, first, axis=1), axis=1)
            drafts[start : start + step] = reachable[np.take_along_axis(first, arrival, axis=1)]
        return drafts[0] if size is None else drafts

    def prob(self, drafts: IntArray) -> FloatArray:
        tuples = as_drafts(drafts, self.n, self.vocab)
        probability = self.q[tuples[..., 0]]
        for i in range(1, self.n):
            drawn, token = tuples[..., :i], tuples[..., i]
            possible = (probability > 0) & ~(drawn == token[..., None]).any(axis=-1)
            left = np.where(possible, self._mass_without(drawn), 1.0)
            probability = np.where(possible, probability * (self.q[token] / left), 0.0)
        return probability

    def hit_chain(self, order: IntArray) -> FloatArray:
        hits = np.concatenate(([0.0], np.minimum(np.cumsum(self.priority_law(order)[order]), 1.0)))
        hits[-1] = 1.0
        return hits

    def priority_law(self, order: IntArray) -> FloatArray:
        law = np.empty(self.vocab)
        q = self.q[order]
        if self.n == 1:
            law[order] = q
        elif self.n == 2:
            law[order] = pair_hit_increments(q, self._mass_without(order[:, None]))
        else:
            law[order] = hit_increments(q, self.heavy[order], self.n, self.nodes)
        return law

    def reachable(self) -> IntArray:
        return np.flatnonzero(self.q)

    def compact(self) -> WithoutReplacement:
        return WithoutReplacement(np.append(self.q[self.reachable()], 0.0), self.n)

    def support_size(self) -> int:
        return math.perm(int(np.count_nonzero(self.q)), min(self.n, COUNTED))

    def support(self) -> Support:
        check_listable(self.support_size(), self.n, "tuples")
        drafts = np.array(list(itertools.permutations(self.reachable(), self.n)), dtype=np.int64)
        return Support.of(drafts, self.prob(drafts))

    def set_count(self) -> int:
        possible = int(np.count_nonzero(self.q))
        return math.comb(possible, min(self.n, possible - self.n, COUNTED))

    def draft_sets(self) -> DraftSets:
        check_listable(self.set_count(), self.n, "draft sets")
        combinations = itertools.chain.from_iterable(itertools.combinations(self.reachable(), self.n))
        tokens = np.fromiter(combinations, dtype=np.int64, count=self.set_count() * self.n).reshape(-1, self.n)
        # Ways of drawing the members that a bit mask stands for: any of them may be the last one drawn.
        ways = np.zeros((1 << self.n, len(tokens)))
        ways[0] = 1.0
        for mask in range(1, 1 << self.n):
            for last in range(self.n):
                drawn = mask ^ (1 << last)
                if drawn < mask:
                    before = tokens[:, [member for member in range(self.n) if drawn >> member & 1]]
                    ways[mask] += ways[drawn] * (self.q[tokens[:, last]] / self._mass_without(before))
        occurs = ways[-1] > 0
        return DraftSets(tokens[occurs], ways[-1][occurs])

    def prefix_order(self, p: FloatArray) -> IntArray:
        # Decreasing p/q [hu2025towards]; what no draft can reach goes first, where it gains nothing.
        # Times 2**60 no p/q overflows: where one token has nearly all of q, tokens of 1e-310 share the second draft.
        reachable = self.reachable()
        ratio = p[reachable] / (2.0**60 * self.q[reachable])
        unreachable = np.flatnonzero(self.q == 0)
        return np.concatenate((unreachable, reachable[np.argsort(-ratio)]))

    def first_draft(self) -> FloatArray:
        return self.q

    def inclusion(self) -> FloatArray | None:
        if self.n > 2:
            return None
        if self.n == 1:
            return self.q
        # P(i is drafted) = q_i + the sum over k != i of q_k q_i / (1 - q_k); a likely k is kept apart, since its odds
        # q_k / (1 - q_k) may overflow, and would drown those of all others.
        others = self._mass_without(np.arange(self.vocab)[:, None])
        likely = self.q > 0.5
        odds = np.divide(self.q, others, out=np.zeros(self.vocab), where=~likely)
        inclusion = self.q * (1.0 + (odds.sum() - odds))
        for k in np.flatnonzero(likely):
            inclusion[~likely] += self.q[~likely] / others[k] * self.q[k]
        return inclusion


@jit
def pair_hit_increments(q: FloatArray, others: FloatArray) -> FloatArray:
    """`otspec.kernels.arrivals.hit_increments` of two drafts, in closed form.

    With h = q / (1 - q) that is the sum over k behind i of P({i, k}) = h_i q_k + q_i h_k.

    Parameters
    ----------
    q, others : ndarray, shape (V,)
        Draft probabilities, and 1 - q without its rounding error, in order of priority.

    Returns
    -------
    ndarray, shape (V,)
        P(the token is drafted and no token before it is).
    """
    law = np.empty(q.size)
    behind = 0.0  # sum of q over the tokens behind
    odds_behind = 0.0  # sum of h, without a token of q > 1/2
    others_of_most = 0.0  # its 1 - q, once it is behind
    mass_of_most = 0.0
    for i in range(q.size - 1, -1, -1):
        if q[i] > 0.5:
            law[i] = q[i] * (behind / others[i] + odds_behind)
            mass_of_most, others_of_most = q[i], others[i]
        else:
            law[i] = q[i] / others[i] * behind + q[i] * odds_behind
            if mass_of_most > 0.0:
                law[i] += q[i] / others_of_most * mass_of_most  # h itself may overflow
            odds_behind += q[i] / others[i]
        behind += q[i]
    return law

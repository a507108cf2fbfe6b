"""Systematic drafts: n distinct tokens from one uniform number."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import (
    ArrayLike,
    FloatArray,
    IntArray,
    Seed,
    as_count,
    as_distinct_law,
    as_drafts,
    as_generator,
    likeliest,
    sum_by,
)
from otspec.schemes.protocol import Support
from otspec.schemes.table import Enumerated
from otspec.tolerances import FULL_TURN_TOL

TURN = 1 << 53
"""Ticks of a turn.  Arcs end on ticks, so that probabilities are exact in float64 and add up to 1 exactly."""

MAX_TURNS = 1023
"""So that positions in ticks fit into 64 bits."""


@dataclass(frozen=True, eq=False, repr=False)
class CircularArcs(Enumerated):
    """Tokens laid end to end around a circle, as many turns as there are drafts: one uniform point picks them all.

    Draft l is the token that covers the point in turn l.  No arc is longer than a turn, so the drafts differ.  The hit
    function of A is the length of the union of the arcs of A, in turns, and there are no more different tuples than
    arcs.  The base of `Systematic`, which lays out a draft law and checks what it is given.

    Parameters
    ----------
    always : ndarray of int, shape (m,)
        Tokens of a whole turn each: drafted always, and first.
    tokens : ndarray of int, shape (k,)
        The other tokens that can be drafted, in the order of the layout.
    ends : ndarray of int, shape (k,)
        Where their arcs end, in ticks from the start of the first: ascending by 1 to `TURN` up to a multiple of it.
    vocab : int
        Number of tokens V.

    Examples
    --------
    >>> import otspec
    >>> from otspec.schemes import CircularArcs
    >>> drafts = otspec.Systematic([0.2, 0.3, 0.5], n=2)
    >>> isinstance(drafts, CircularArcs), drafts.always.tolist(), drafts.turns  # token 2 always, and one that is drawn
    (True, [2], 1)
    """

    always: IntArray
    tokens: IntArray
    ends: IntArray
    vocab: int
    n: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", self.always.size + self.turns)
        for values in (self.always, self.tokens, self.ends):
            values.flags.writeable = False

    @property
    def turns(self) -> int:
        """How often the arcs go around: the number of drafts that are drawn."""
        return int(self.ends[-1]) // TURN if self.ends.size else 0

    @cached_property
    def cuts(self) -> IntArray:
        """Where, in ticks, one draft gives way to the next, ascending from 0; a segment starts at each, shape (m,)."""
        cuts = np.sort(np.append(self.ends % TURN, 0))
        return cuts[np.append(True, np.diff(cuts) > 0)]

    @cached_property
    def spans(self) -> IntArray:
        """Arc j covers the segments spans[j] to spans[j + 1], counted on over all turns, shape (k + 1,)."""
        ends = self.ends // TURN * self.cuts.size + np.searchsorted(self.cuts, self.ends % TURN)
        return np.concatenate(([0], ends))

    @cached_property
    def cover(self) -> IntArray:
        """The arc that covers each segment in each turn, shape (m, turns)."""
        arcs = np.repeat(np.arange(self.ends.size), np.diff(self.spans))
        return np.ascontiguousarray(arcs.reshape(self.turns, self.cuts.size).T)

    def _with_always(self, arcs: IntArray) -> IntArray:
        """The tuples whose drawn tokens have the given arcs, shape (..., turns) to (..., n)."""
        always = np.broadcast_to(self.always, (*arcs.shape[:-1], self.always.size))
        return np.concatenate((always, self.tokens[arcs]), axis=-1)

    def sample(self, rng: Seed, size: int | None = None) -> IntArray:
        rng = as_generator(rng)
        point = np.asarray(rng.integers(TURN, size=size))
        return self._with_always(np.searchsorted(self.ends, point[..., None] + np.arange(self.turns) * TURN, "right"))

    @cached_property
    def _arc_of(self) -> tuple[IntArray, IntArray]:
        """Where the arc of each token starts and ends, shape (V,), in ticks; an arc of no length for those without."""
        start, end = np.zeros((2, self.vocab), dtype=np.int64)
        start[self.tokens] = np.concatenate(([0], self.ends[:-1]))
        end[self.tokens] = self.ends
        return start, end

    def _meet(self, drafts: IntArray) -> tuple[IntArray, IntArray]:
        """The points at which tuples of shape (..., n) are drawn: an interval each, empty or from low to high."""
        always, drawn = np.split(as_drafts(drafts, self.n, self.vocab), [self.always.size], axis=-1)
        start, end = self._arc_of
        turn = np.arange(self.turns) * TURN
        low = (start[drawn] - turn).max(axis=-1, initial=0)
        high = (end[drawn] - turn).min(axis=-1, initial=TURN)
        return low, np.where((always == self.always).all(axis=-1), high, low)

    def prob(self, drafts: IntArray) -> FloatArray:
        low, high = self._meet(drafts)
        return np.maximum(high - low, 0) / TURN

    def segment(self, drafts: IntArray) -> int:
        """The segment on which one tuple, shape (n,), is drawn.

        Raises
        ------
        ProblemError
            If the drafts are not a tuple of the scheme, or cannot occur in this order.
        """
        low, high = self._meet(drafts)
        if low >= high:
            raise ProblemError(f"drafts {drafts.tolist()} have probability 0, in this order; draw them with sample()")
        return int(np.searchsorted(self.cuts, low))

    @cached_property
    def _listed(self) -> Support:
        return Support(self._with_always(self.cover), np.diff(self.cuts, append=TURN) / TURN)

    def support(self) -> Support:
        return self._listed

    def support_size(self) -> int:
        return self.cuts.size

    def reachable(self) -> IntArray:
        return np.sort(np.concatenate((self.always, self.tokens)))

    def inclusion(self) -> FloatArray:
        drafts, probabilities = self.support()
        return np.minimum(sum_by(drafts.ravel(), np.repeat(probabilities, self.n), self.vocab), 1.0)

    def compact(self) -> CircularArcs:
        reachable = self.reachable()
        always, tokens = np.searchsorted(reachable, self.always), np.searchsorted(reachable, self.tokens)
        return CircularArcs(always, tokens, self.ends, reachable.size + 1)


class Systematic(CircularArcs):
    """Distinct drafts with inclusion probabilities min(1, c q), by systematic sampling [madow1949theory].

    One random number picks all n drafts.  Each token is drafted with probability min(1, c q), with c such that these
    add up to n.  There are at most V different sets of drafts, while drawing without replacement has binomial(V, n), so
    the transport is solved exactly in O(V log V + n V) (`otspec.solvers.earliest_deadline`).  Systematic sampling is
    classical; as a law of drafts it is our own, and we know of no decoder that uses it.

    The layout of the tokens is a fixed permutation of their ids, the same in drafting and verifying.  See
    docs/tried.md for what other layouts give.

    Parameters
    ----------
    q : array_like, shape (V,)
        Draft next-token probabilities, checked and scaled as in `otspec.laws.as_law`.  A token whose inclusion
        probability is below 1e-16 may never be drafted.
    n : int
        Drafts per position, 1 to 1023.

    Raises
    ------
    ProblemError
        If q is not a law, n is out of range, or fewer than n tokens have a probability above 0.

    Examples
    --------
    >>> import otspec
    >>> scheme = otspec.Systematic([0.2, 0.3, 0.5], n=2)
    >>> len(set(scheme.sample(0).tolist()))  # n different tokens
    2
    >>> print(scheme.inclusion())  # token 2 is always drafted: its arc covers the circle
    [0.4 0.6 1. ]
    """

    def __init__(self, q: ArrayLike, n: int) -> None:
        n = as_count("n", n)
        law = as_distinct_law("q", q, n)
        if n > MAX_TURNS:
            raise ProblemError(f"n is {n}; systematic drafts are at most {MAX_TURNS}")
        arcs = lay_out(law, n, shuffled(law.size))
        super().__init__(arcs.always, arcs.tokens, arcs.ends, arcs.vocab)


@lru_cache(maxsize=8)
def shuffled(vocab: int) -> IntArray:
    """A fixed permutation of the tokens: by a hash of their ids, as no random generator promises the same for ever."""
    key = np.arange(1, vocab + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # the mixing steps of SplitMix64
        key = (key ^ (key >> np.uint64(shift))) * np.uint64(factor)
    order = np.argsort(key ^ (key >> np.uint64(31)))
    order.flags.writeable = False
    return order


def lay_out(q: FloatArray, n: int, order: IntArray) -> CircularArcs:
    """Arcs of length min(1, c q) turns, with c such that they make n turns in all.

    Ends are rounded to ticks.  The scheme is the law so rounded, and exact for it; a token whose arc comes out shorter
    than half a tick may have none, and is then never drafted.

    Parameters
    ----------
    q : ndarray, shape (V,)
        Draft law, with at least n tokens of probability above 0.
    n : int
        Drafts per position, up to `MAX_TURNS`.
    order : ndarray of int, shape (V,)
        All tokens, in the order in which their arcs are laid.
    """
    rest = q.copy()
    top = likeliest(q, n)
    full = 0
    while full < n and rest[top[full]] * (n - full) >= (1 - FULL_TURN_TOL) * rest.sum():
        rest[top[full]] = 0.0
        full += 1
    if full == n:
        return CircularArcs(top, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), q.size)
    reach = np.cumsum(rest[order])
    ends = np.rint(reach / reach[-1] * ((n - full) * TURN)).astype(np.int64)
    has_arc = np.diff(ends, prepend=0) > 0
    return CircularArcs(top[:full], order[has_arc], ends[has_arc], q.size)

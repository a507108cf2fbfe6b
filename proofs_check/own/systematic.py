"""Systematic drafts: n distinct tokens from one uniform number, and the rule that is optimal for them.

Each token has an arc of min(1, c q) turns, c such that the arcs make n turns, laid end to end around a circle; one
uniform point u drafts the tokens that cover u in each of the turns [madow1949theory].  Tokens of a whole turn are
always drafted.  Drafts differ, since no arc is longer than a turn, and there are at most as many tuples as arcs.

The relaxed transport program is a scheduling problem: each point of the circle can serve one of the tokens whose arcs
cover it, and token i wants p_i in all.  On a line, serving the token whose arc ends first, the earliest deadline, is
optimal [glover1967maximum].  On a circle going on for a second turn is enough, as it is for matchings
[liang1995circular].

The pass starts with nothing wanted.  A token wants p_i from the start of its arc on, and whatever it still wants at
the end of the arc it loses.  This is a rule of fixed priorities: one by one, in the order in which their arcs end,
tokens take the first p_i of what their arcs have left.  So another token that wants something leaves each of the rest
no more than before, up to any point.

*If some point t is left idle in the second turn*, the turn that follows t is optimal.  At t no token waits, so the pass
goes on as one that starts there.  Let A be the tokens left wanting, those served on their arcs, those served on the
arcs of these, and so on.  While a token waits, only tokens whose arcs end no later are served; so no arc of A covers t,
and every point of every arc of A serves a token of A.  Hence the turn serves f(A), which is all that A can be served,
and all that the other tokens want, 1 - p(A).  No verifier does better than f(A) + 1 - p(A).

That turn ends at t as the second one passed it, idle, with no token waiting.  For t was idle in the first turn as well,
which wanted no more; so from t to the start the first two turns went alike, and the turn that follows t comes to the
start as they did, and from there to t goes the way of the second.

*If no point is idle in the second turn*, all drafts are accepted: nothing is better.  It has to be shown that no token
gets more than p_i.  Only tokens whose arcs cross the start have two tries in a turn.  Before the start of the arc they
want what the first turn left of p_i; after it they get no more than in the first turn, which differed from the second
in that no token wanted such a rest.

Tokens that cover the whole circle end last everywhere: they take what is idle after all others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from otspec.laws import FloatArray, IntArray, likeliest
from otspec.schemes import Table

TURN = 1 << 53
"""Ticks of a turn: arcs end on ticks, so that sums of their lengths are exact."""
FULL_TURN_TOL = 1e-9
"""How far an inclusion probability may be from 1 and count as 1."""
IDLE_TOL = 1e-12
"""What is left idle of all turns where rounding alone left it."""


@dataclass(frozen=True)
class Circle:
    """The circle cut where one draft gives way to the next, into m segments."""

    always: IntArray
    """Shape (a,): the tokens of a whole turn each."""
    tokens: IntArray
    """Shape (k,): the tokens of the arcs, in the order of the layout."""
    spans: IntArray
    """Shape (k + 1,): arc j covers the segments spans[j] to spans[j + 1], counted on over all turns."""
    mass: FloatArray
    """Shape (m,): the length of each segment, in turns: the probability of its tuple."""
    vocab: int

    @classmethod
    def of(cls, q: FloatArray, n: int) -> Circle:
        """The arcs of a draft law, shape (V,), and n drafts: at least n tokens have a probability above 0."""
        rest, top, full = q.copy(), likeliest(q, n), 0
        while full < n and rest[top[full]] * (n - full) >= (1 - FULL_TURN_TOL) * rest.sum():
            rest[top[full]] = 0.0
            full += 1
        reach = np.cumsum(rest)
        ends = np.rint(reach / (reach[-1] or 1.0) * ((n - full) * TURN)).astype(np.int64)
        has_arc = np.diff(ends, prepend=0) > 0
        ends = ends[has_arc]
        cuts = np.unique(np.append(ends % TURN, 0))
        spans = np.append(0, ends // TURN * cuts.size + np.searchsorted(cuts, ends % TURN))
        return cls(top[:full], np.flatnonzero(has_arc), spans, np.diff(cuts, append=TURN) / TURN, q.size)

    @property
    def cover(self) -> IntArray:
        """The arc that covers each segment in each turn, shape (m, turns)."""
        arcs = np.repeat(np.arange(self.tokens.size), np.diff(self.spans))
        return arcs.reshape(-1, self.mass.size).T

    @property
    def drafts(self) -> IntArray:
        """The tuple of each segment, shape (m, n)."""
        always = np.broadcast_to(self.always, (self.mass.size, self.always.size))
        return np.concatenate((always, self.tokens[self.cover]), axis=1)

    def scheme(self) -> Table:
        """The law of the drafts."""
        return Table(self.drafts, self.mass, self.vocab)

    def shares(self, p: FloatArray) -> FloatArray:
        """What each segment serves of each of its drafts by the rule, shape (m, n); its mass is the most it serves."""
        unmet = np.zeros(self.tokens.size)
        for _ in range(2):
            served, idle = self._turn(0, p[self.tokens], unmet)
        if idle.sum() > IDLE_TOL:
            unmet[:] = 0.0
            served, idle = self._turn(int(idle.argmax()) + 1, p[self.tokens], unmet)
        patient = p[self.always]
        total = max(float(idle.sum()), float(patient.sum()))
        return np.concatenate((idle[:, None] * (patient / total if total > 0 else patient), served), axis=1)

    def _turn(self, start: int, demand: FloatArray, unmet: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Go once around, and serve on each segment the arc that ends first; the unmet demand is updated."""
        cover = self.cover
        segments, turns = cover.shape
        served, idle = np.zeros((segments, turns)), self.mass.copy()
        for s in (start + np.arange(segments)) % segments:
            begins = self.spans[cover[s]] == np.arange(turns) * segments + s
            unmet[cover[s][begins]] = demand[cover[s][begins]]
            for turn in np.argsort(self.spans[cover[s] + 1] - np.arange(turns) * segments, kind="stable"):
                amount = min(idle[s], unmet[cover[s, turn]])
                served[s, turn] = amount
                unmet[cover[s, turn]] -= amount
                idle[s] -= amount
        return served, idle


def systematic(q: FloatArray, n: int) -> Table:
    """The law of n systematic drafts from q, tokens laid out in the order of their ids."""
    return Circle.of(q, n).scheme()

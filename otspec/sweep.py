"""The optimal choice among drafts that one point of a circle picks, by sweeping around the circle.

For such drafts (`otspec.schemes.Arcs`) the relaxed transport program is a scheduling problem: each point of the circle
can serve one of the tokens whose arcs cover it, and token i wants p_i in all.  On a line, serving the token whose arc
ends first is optimal [glover1967maximum].  On a circle an arc may cross the point where the sweep starts, and going on
for a second turn is enough, as it is for matchings [liang1995circular].

The sweep starts with nothing wanted.  A token wants p_i from the start of its arc on, and whatever it still wants at
the end of the arc it loses.  This is a rule of fixed priorities: one by one, in the order in which their arcs end,
tokens take the first p_i of what their arcs have left.  So another token that wants something leaves each of the rest
no more than before, up to any point.

*If some point t is left idle in the second turn*, the turn that follows t is optimal.  At t nobody waits, so the sweep
goes on as one that starts there.  Let A be the tokens left wanting, those served on their arcs, those served on the
arcs of these, and so on.  While a token waits, only tokens whose arcs end no later are served; so no arc of A covers t,
and every point of every arc of A serves a token of A.  Hence the turn serves f(A), which is all that A can be served,
and all that the other tokens want, 1 - p(A).  No verifier does better than f(A) + 1 - p(A).

*If no point is idle in the second turn*, all drafts are accepted: nothing is better.  It has to be shown that no token
gets more than p_i.  Only tokens whose arcs cross the start have two tries in a turn.  Before the start of the arc they
want what the first turn left of p_i; after it they get no more than in the first turn, which differed from the second
in that nobody wanted such a rest.

Tokens that cover the whole circle end last everywhere: they take what is idle after all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from otspec.jit import jit
from otspec.laws import BoolArray, FloatArray, IntArray, sum_by
from otspec.schemes import Arcs
from otspec.tolerances import TIE_TOL


@dataclass(frozen=True, eq=False)
class SegmentRule:
    """A pick rule that looks up on which segment of the circle the drafts were drawn."""

    scheme: Arcs
    shares: FloatArray
    """Shape (m, n): the weights of the drafts on each segment."""

    @cached_property
    def proposal(self) -> FloatArray:
        """g, shape (V,): the law of the picked token when the drafts come from the scheme."""
        drafts, mass = self.scheme.support()
        return sum_by(drafts.reshape(-1), (self.shares * mass[:, None]).reshape(-1), self.scheme.vocab)

    def weights(self, drafts: IntArray) -> FloatArray:
        """Probability of picking each draft, shape (n,) to (n,).

        Raises
        ------
        ProblemError
            If the drafts cannot occur in this order.
        """
        return self.shares[self.scheme.segment(drafts)]


def sweep(p: FloatArray, arcs: Arcs) -> tuple[SegmentRule, IntArray]:
    """An optimal pick rule, and H*: ascending ids of the over-drafted tokens, none if all drafts are accepted.

    O(V log V + n V), whatever the laws.
    """
    mass = arcs.support().probabilities
    wanted = p[arcs.tokens]
    waits = np.zeros_like(wanted)
    for _ in range(2):
        served, idle = _turn(0, mass, arcs.cover, arcs.spans, wanted, waits)
    over_drafted = np.zeros(p.size, dtype=bool)
    if idle.sum() > TIE_TOL:
        rest = int(idle.argmax())
        waits[:] = 0.0
        served, idle = _turn(rest + 1, mass, arcs.cover, arcs.spans, wanted, waits)
        waits[arcs.cover[rest]] = 0.0  # it may hold some rounding
        over_drafted[arcs.reachable()] = True
        over_drafted[arcs.tokens[_reached(waits > 0, arcs.cover, arcs.spans, served)]] = False
    patient = p[arcs.always]
    total = max(idle.sum(), patient.sum())
    taken = idle[:, None] * (patient / total if total > 0 else patient)
    if patient.sum() >= idle.sum():
        over_drafted[:] = False
    shares = np.concatenate((taken, served), axis=1)
    accepted = shares.sum(axis=1, keepdims=True)
    shares = np.divide(shares, accepted, out=np.full_like(shares, 1 / arcs.n), where=accepted > 0)
    return SegmentRule(arcs, shares), np.flatnonzero(over_drafted)


@jit
def _turn(
    start: int, mass: FloatArray, cover: IntArray, spans: IntArray, wanted: FloatArray, waits: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Go once around the segments, and serve on each the arc that ends first.

    Parameters
    ----------
    start : int
        The segment to start with.
    mass : ndarray, shape (m,)
        Length of each segment.
    cover : ndarray of int, shape (m, turns)
    spans : ndarray of int, shape (k + 1,)
        As in `Arcs`.
    wanted : ndarray, shape (k,)
        What each arc wants when it starts.
    waits : ndarray, shape (k,)
        What it still wants; updated.

    Returns
    -------
    served : ndarray, shape (m, turns)
    idle : ndarray, shape (m,)
    """
    segments, turns = cover.shape
    served = np.zeros((segments, turns))
    idle = np.empty(segments)
    queue = np.arange(turns)
    due = np.empty(turns, dtype=np.int64)
    for step in range(segments):
        s = (start + step) % segments
        for turn in range(turns):
            j = cover[s, turn]
            due[turn] = spans[j + 1] - turn * segments
            if spans[j] == turn * segments + s:
                waits[j] = wanted[j]
        for i in range(1, turns):  # by insertion: from one segment to the next little changes
            turn = queue[i]
            at = i
            while at > 0 and due[queue[at - 1]] > due[turn]:
                queue[at] = queue[at - 1]
                at -= 1
            queue[at] = turn
        room = mass[s]
        for i in range(turns):
            turn = queue[i]
            j = cover[s, turn]
            amount = min(room, waits[j])
            served[s, turn] = amount
            waits[j] -= amount
            room -= amount
        idle[s] = room
    return served, idle


@jit
def _reached(waiting: BoolArray, cover: IntArray, spans: IntArray, served: FloatArray) -> BoolArray:
    """The arcs that wait, those served on their segments, those served on the segments of these, and so on."""
    segments, turns = cover.shape
    reached = waiting.copy()
    stack = np.empty(waiting.size, dtype=np.int64)
    top = 0
    for j in range(waiting.size):
        if waiting[j]:
            stack[top] = j
            top += 1
    fresh = np.arange(segments + 1)  # leads, in steps, to the next segment not yet looked at
    while top > 0:
        top -= 1
        j = stack[top]
        s = int(spans[j]) % segments
        left = spans[j + 1] - spans[j]
        while left > 0:
            stop = min(s + left, segments)
            left -= stop - s
            while True:
                while fresh[s] != s:
                    fresh[s] = fresh[fresh[s]]
                    s = int(fresh[s])
                if s >= stop:
                    break
                fresh[s] = s + 1
                for turn in range(turns):
                    other = cover[s, turn]
                    if served[s, turn] > 0 and not reached[other]:
                        reached[other] = True
                        stack[top] = other
                        top += 1
            s = 0
    return reached

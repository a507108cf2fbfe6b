"""The optimal choice among drafts that one point of a circle picks, by one pass around the circle.

For such drafts (`otspec.schemes.CircularArcs`) the relaxed transport program is a scheduling problem: each point of
the circle can serve one of the tokens whose arcs cover it, and token i wants p_i in all.  On a line, serving the token
whose arc ends first, the earliest deadline, is optimal [glover1967maximum].  On a circle an arc may cross the point
where the pass starts, and going on for a second turn is enough, as it is for matchings [liang1995circular].

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

from typing import NamedTuple

import numpy as np

from otspec.jit import jit
from otspec.laws import BoolArray, FloatArray, IntArray
from otspec.tolerances import TIE_TOL


class Segments(NamedTuple):
    """The circle cut where one draft gives way to the next: m segments, and the arcs that cover each."""

    mass: FloatArray
    """Shape (m,): the length of each, in turns."""
    cover: IntArray
    """Shape (m, turns): the arc that covers it in each turn."""
    spans: IntArray
    """Shape (k + 1,): arc j covers the segments spans[j] to spans[j + 1], counted on over all turns."""


class Service(NamedTuple):
    """Who is served where, so that as much as possible of what is wanted is served."""

    idle: FloatArray
    """Shape (m,): what each segment has left."""
    served: FloatArray
    """Shape (m, turns): what it serves of the arc that covers it in each turn."""
    tight: BoolArray | None
    """Shape (k,): the arcs A of the statement above; None where no segment is idle."""


def earliest_deadline(segments: Segments, demand: FloatArray) -> Service:
    """Serve the arc that ends first, around the circle.

    Parameters
    ----------
    segments : Segments
        Of k arcs and m segments.
    demand : ndarray, shape (k,)
        What each arc is to be served in all, a probability.

    Returns
    -------
    Service
        As much as can be served.
    """
    unmet = np.zeros_like(demand)
    for _ in range(2):
        served, idle = _turn(0, *segments, demand, unmet)
    if idle.sum() <= TIE_TOL:
        return Service(idle, served, None)
    rest = int(idle.argmax())
    unmet[:] = 0.0
    served, idle = _turn(rest + 1, *segments, demand, unmet)
    return Service(idle, served, _reached(unmet > 0, segments.cover, segments.spans, served))


@jit
def _turn(
    start: int, mass: FloatArray, cover: IntArray, spans: IntArray, demand: FloatArray, unmet: FloatArray
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
        As in `Segments`.
    demand : ndarray, shape (k,)
        What each arc asks for when it starts.
    unmet : ndarray, shape (k,)
        What it still asks for; updated.

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
                unmet[j] = demand[j]
        for i in range(1, turns):  # by insertion: from one segment to the next little changes
            turn = queue[i]
            at = i
            while at > 0 and due[queue[at - 1]] > due[turn]:
                queue[at] = queue[at - 1]
                at -= 1
            queue[at] = turn
        left_over = mass[s]
        for i in range(turns):
            turn = queue[i]
            j = cover[s, turn]
            amount = min(left_over, unmet[j])
            served[s, turn] = amount
            unmet[j] -= amount
            left_over -= amount
        idle[s] = left_over
    return served, idle


@jit
def _reached(waiting: BoolArray, cover: IntArray, spans: IntArray, served: FloatArray) -> BoolArray:
    """The arcs that wait, those served on their segments, those served on the segments of these, and so on.

    Parameters
    ----------
    waiting : ndarray of bool, shape (k,)
        The arcs to start from.
    cover : ndarray of int, shape (m, turns)
    spans : ndarray of int, shape (k + 1,)
        As in `Segments`.
    served : ndarray, shape (m, turns)
        As in `Service`.

    Returns
    -------
    ndarray of bool, shape (k,)
        The arcs that are reached.
    """
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

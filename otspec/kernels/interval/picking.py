"""Picking a draft by places and exchanges (`otspec.kernels.interval.exchange`): by drawing, or by integration.

`places` are of k tokens, trimmed to what is filled; `h` is the number of an exchange, and `rank` that of a token.
"""

from __future__ import annotations

import numpy as np

from otspec.jit import jit, jit_inlined
from otspec.kernels.interval.places import Places
from otspec.laws import BoolArray, FloatArray, IndexArray, IntArray


@jit
def pick_draft(places: Places, ranks: IntArray, uniforms: FloatArray) -> int:
    """Index of the draft that shows the largest point, of its own place or of one drawn in an exchange.

    A point is the pair (rank of the place, fraction): as one float, places smaller than an ulp would run together.

    Parameters
    ----------
    ranks : ndarray of int, shape (n,)
        Ranks of the drafts.
    uniforms : ndarray, shape (n, 3) or more rows
        Numbers in [0, 1): which exchange, if any; what is drawn there; the fraction.
    """
    lowest = places.block[np.searchsorted(places.block, ranks.max(), side="right") - 1]
    winner = -1
    best_place = -1
    best_fraction = 0.0
    for m in range(ranks.size):
        rank = ranks[m]
        if rank < lowest:
            continue  # exchanges never leave their block
        place = rank
        if uniforms[m, 0] < places.share[rank]:
            h = places.exchange[rank]
            position = uniforms[m, 0] * places.size[rank] - contribution_to(places, h, rank)
            while position >= 0.0 and enters(places, h + 1, rank):
                h += 1
                position -= contribution_to(places, h, rank)
            place = _draw(places, h, uniforms[m, 1] * places.contributed[h])
        if place > best_place or (place == best_place and uniforms[m, 2] > best_fraction):
            winner, best_place, best_fraction = m, place, uniforms[m, 2]
    return winner


@jit
def enters(places: Places, h: int, rank: int) -> bool:
    """Whether the token of that rank, a member of exchange h - 1, is one of exchange h as well."""
    return h < places.first_recipient.size and places.first_recipient[h] == rank and rank < places.first_donor[h]


@jit
def contribution_to(places: Places, h: int, rank: int) -> float:
    """What the token of that rank contributes to exchange h, as a part of its size."""
    if rank == places.first_recipient[h] and rank < places.first_donor[h]:
        return places.first_contribution[h]
    if rank == places.last_recipient[h]:
        return places.last_contribution[h]
    if places.exchange[rank] == h:
        return places.size[rank] * places.share[rank]
    return 0.0


@jit
def _draw(places: Places, h: int, position: float) -> int:
    """The rank at which the running sum of the contributions to exchange h exceeds `position`, at most their sum."""
    drawn = -1
    for rank in range(places.first_recipient[h], places.donors_end[h]):
        contribution = contribution_to(places, h, rank)
        if contribution > 0.0:
            drawn = rank
            position -= contribution
            if position < 0.0:
                break
    return drawn


@jit
def pick_weights(places: Places, ranks: IntArray, nodes: FloatArray, node_weights: FloatArray) -> FloatArray:
    """Exact probability, shape (n,), that each draft shows the largest point.

    With A_m the distribution function of draft m's point, that is the integral over [0, 1] of the product of the
    others' A over dA_m.  Between neighbouring cuts all A are affine in one common variable: within one place, and along
    the members of one exchange.  So the integrand is a polynomial of degree n - 1, and Gauss-Legendre sums integrate it
    exactly.

    Parameters
    ----------
    ranks : ndarray of int, shape (n,)
        Ranks of the drafts.
    nodes, node_weights : ndarray, shape ((n + 1) // 2,)
        Gauss-Legendre rule on [0, 1] that is exact for degree n - 1.
    """
    # Every access to a tuple of arrays counts references: some nanoseconds each, and most calls take no microsecond.
    size, share, exchange = places.size, places.share, places.exchange
    first_recipient, first_donor = places.first_recipient, places.first_donor
    n = ranks.size
    weights = np.zeros(n)
    lowest = places.block[np.searchsorted(places.block, ranks.max(), side="right") - 1]
    count, memberships, differing = 0, 0, False
    first = -1
    for rank in ranks:
        if rank >= lowest:
            first = rank if count == 0 else first
            differing |= rank != first
            count += 1
            memberships += _memberships(exchange, first_recipient, first_donor, rank)
    if not differing:
        for m in range(n):
            weights[m] = 1.0 / count if ranks[m] >= lowest else 0.0
        return weights
    # Those that can win, and the exchanges they enter.
    active, entered = np.empty(count, dtype=np.int64), np.empty(memberships, dtype=np.int64)
    count, memberships = 0, 0
    for m in range(n):
        rank = ranks[m]
        if rank >= lowest:
            active[count] = m
            count += 1
            for more in range(_memberships(exchange, first_recipient, first_donor, rank)):
                entered[memberships] = exchange[rank] + more
                memberships += 1
    exchanges = _sort_distinct(entered)
    cuts = np.empty(2 * count + 6 * exchanges, dtype=np.int64)
    pieces = _cut(places, ranks[active], entered[:exchanges], cuts)
    chance, drawn = np.zeros((count, exchanges)), np.empty((exchanges, pieces))
    for m in range(count):
        rank, at = ranks[active[m]], 0
        for more in range(_memberships(exchange, first_recipient, first_donor, rank)):
            h = exchange[rank] + more
            while entered[at] < h:
                at += 1
            chance[m, at] = contribution_to(places, h, rank) / size[rank]
    for at in range(exchanges):
        _distribution(places, entered[at], cuts[:pieces], drawn[at])
    below, above, value = np.zeros(count), np.empty(count), np.empty(count)
    for c in range(1, pieces):
        for m in range(count):
            above[m] = 1.0 - share[ranks[active[m]]] if cuts[c] > ranks[active[m]] else 0.0
            for at in range(exchanges):
                above[m] += chance[m, at] * drawn[at, c]
        integrate(nodes, node_weights, below, above, value, active, weights)
    return weights


@jit_inlined
def integrate(
    nodes: FloatArray,
    node_weights: FloatArray,
    below: FloatArray,
    above: FloatArray,
    value: FloatArray,
    active: IntArray,
    weights: FloatArray,
) -> None:
    """Add the chances that each of some drafts shows the largest point and it lies between two cuts.

    Parameters
    ----------
    nodes, node_weights
        As in `pick_weights`.
    below, above : ndarray, shape (c,)
        The drafts' distribution functions at the cuts; the lower ones become the upper ones, for the next.
    value : ndarray, shape (c,)
        Working memory.
    active : ndarray of int, shape (c,)
        Which drafts they are.
    weights : ndarray, shape (n,)
        Updated.
    """
    count = active.size
    for node in range(nodes.size):
        for m in range(count):
            value[m] = below[m] + nodes[node] * (above[m] - below[m])
        for m in range(count):
            product = node_weights[node] * (above[m] - below[m])
            if product != 0.0:
                for other in range(count):
                    if other != m:
                        product *= value[other]
                weights[active[m]] += product
    for m in range(count):
        below[m] = above[m]


@jit
def point_laws(places: Places) -> tuple[FloatArray, BoolArray]:
    """What `pick_weights` works out for its drafts, for every token at every rank: for few tokens.

    Returns
    -------
    below : ndarray, shape (k, k + 1)
        The chance that the token shows a point of a place below each rank.
    cut : ndarray of bool, shape (k, k + 1)
        The ranks at which it has the integral cut.
    """
    k = places.size.size
    below, cut = np.zeros((k, k + 1)), np.zeros((k, k + 1), dtype=np.bool_)
    for rank in range(k):
        below[rank, rank + 1 :] = 1.0 - places.share[rank]
        cut[rank, rank : rank + 2] = True
    exchanges, ranks = np.arange(places.threshold.size), np.arange(k + 1)
    drawn, cuts = np.empty(k + 1), np.empty(6, dtype=np.int64)
    for h in range(exchanges.size):
        _distribution(places, h, ranks, drawn)
        pieces = _cut(places, exchanges[:0], exchanges[h : h + 1], cuts)
        for rank in range(places.first_recipient[h], places.donors_end[h]):
            first = places.exchange[rank]
            last = first + _memberships(places.exchange, places.first_recipient, places.first_donor, rank)
            if first <= h < last:
                chance = contribution_to(places, h, rank) / places.size[rank]
                for c in range(k + 1):
                    below[rank, c] += chance * drawn[c]
                for c in cuts[:pieces]:
                    cut[rank, c] = True
    return below, cut


@jit_inlined
def _memberships(exchange: IndexArray, first_recipient: IndexArray, first_donor: IndexArray, rank: int) -> int:
    """How many exchanges the token of that rank enters, numbered from its first one on; the arrays are of `Places`."""
    first = exchange[rank]
    if first < 0:
        return 0
    past = first + 1
    while past < first_recipient.size and first_recipient[past] == rank and rank < first_donor[past]:
        past += 1
    return past - first


@jit_inlined
def _sort_distinct(numbers: IntArray) -> int:
    """Sort a few numbers, shape (m,), by insertion, drop those equal to others, and return how many are left."""
    distinct = 0
    for i in range(numbers.size):
        number = numbers[i]
        at = distinct
        while at > 0 and numbers[at - 1] > number:
            at -= 1
        if at == 0 or numbers[at - 1] != number:
            for j in range(distinct, at, -1):
                numbers[j] = numbers[j - 1]
            numbers[at] = number
            distinct += 1
    return distinct


@jit_inlined
def _cut(places: Places, ranks: IntArray, entered: IntArray, cuts: IntArray) -> int:
    """Fill in the ranks between which at most one of some tokens or exchanges has places, or just one place lies.

    Recipients of different exchanges do not overlap, save that one may belong to several: then it is the last one of
    one and the first one of the next.  Donors of an exchange are neighbours.

    Parameters
    ----------
    ranks : ndarray of int, shape (m,)
        Ranks of the tokens.
    entered : ndarray of int, shape (e,)
        Numbers of the exchanges.
    cuts : ndarray of int, shape (2 m + 6 e,)
        Filled from the left, ascending, from the lowest rank with a place to one past the highest.

    Returns
    -------
    int
        How many there are.
    """
    first_recipient, last_recipient = places.first_recipient, places.last_recipient
    first_donor, donors_end = places.first_donor, places.donors_end
    here = 0
    for rank in ranks:
        cuts[here], cuts[here + 1] = rank, rank + 1
        here += 2
    for h in entered:
        cuts[here], cuts[here + 1] = first_recipient[h], first_recipient[h] + 1
        cuts[here + 2], cuts[here + 3] = last_recipient[h], last_recipient[h] + 1
        cuts[here + 4], cuts[here + 5] = first_donor[h], donors_end[h]
        here += 6
    return _sort_distinct(cuts)


@jit_inlined
def _distribution(places: Places, h: int, cuts: IntArray, drawn: FloatArray) -> None:
    """Fill in the probabilities that exchange h draws a place below each cut.

    Parameters
    ----------
    cuts : ndarray of int, shape (c,)
        Of `_cut`: the first and the last recipient are cut off by themselves.
    drawn : ndarray, shape (c,)
        Filled.
    """
    size, share, exchange = places.size, places.share, places.exchange
    total = 0.0
    rank, end = places.first_recipient[h], places.donors_end[h]
    for c in range(cuts.size):
        stop = min(cuts[c], end)
        if stop - rank == 1:
            total += contribution_to(places, h, rank)
        else:
            for other in range(rank, stop):
                total += size[other] * share[other] if exchange[other] == h else 0.0
        rank = max(rank, stop)
        drawn[c] = total
    if total > 0.0:
        for c in range(cuts.size):
            drawn[c] /= total

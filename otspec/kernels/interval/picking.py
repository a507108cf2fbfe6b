"""Picking a draft by places and exchanges (`otspec.kernels.interval.exchange`): by drawing, or by integration."""

from __future__ import annotations

import numpy as np

from otspec.jit import jit
from otspec.kernels.interval.exchange import Places
from otspec.laws import FloatArray, IntArray


@jit
def pick_draft(places: Places, ranks: IntArray, uniforms: FloatArray) -> int:
    """Index of the draft that shows the largest point, of its own place or of one drawn in an exchange.

    A point is the pair (rank of the place, fraction): as one float, places smaller than an ulp would run together.

    Parameters
    ----------
    places : Places
        Of k tokens, trimmed to what is filled.
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
    """Whether the token of that rank, a member of exchange h - 1, is one of exchange h as well.

    Parameters
    ----------
    places : Places
        Of k tokens, trimmed to what is filled.
    h, rank : int
        Numbers of an exchange and of a token.
    """
    return h < places.first_recipient.size and places.first_recipient[h] == rank and rank < places.first_donor[h]


@jit
def contribution_to(places: Places, h: int, rank: int) -> float:
    """What the token of that rank contributes to exchange h, as a part of its size.

    Parameters
    ----------
    places : Places
        Of k tokens, trimmed to what is filled.
    h, rank : int
        Numbers of an exchange and of a token.
    """
    if rank == places.first_recipient[h] and rank < places.first_donor[h]:
        return places.first_contribution[h]
    if rank == places.last_recipient[h]:
        return places.last_contribution[h]
    if places.exchange[rank] == h:
        return places.size[rank] * places.share[rank]
    return 0.0


@jit
def _draw(places: Places, h: int, position: float) -> int:
    """The rank at which the running sum of the contributions to exchange h exceeds `position`.

    Parameters
    ----------
    places : Places
        Of k tokens, trimmed to what is filled.
    h : int
        The exchange.
    position : float
        From 0 to the sum of its contributions.
    """
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
    places : Places
        Of k tokens, trimmed to what is filled.
    ranks : ndarray of int, shape (n,)
        Ranks of the drafts.
    nodes, node_weights : ndarray, shape ((n + 1) // 2,)
        Gauss-Legendre rule on [0, 1] that is exact for degree n - 1.
    """
    weights = np.zeros(ranks.size)
    lowest = places.block[np.searchsorted(places.block, ranks.max(), side="right") - 1]
    active = np.flatnonzero(ranks >= lowest)
    mine = ranks[active]
    if mine.min() == mine.max():
        weights[active] = 1.0 / active.size
        return weights
    entered, chance = _exchanges_of(places, mine)
    cuts = _cuts(places, mine, entered)
    drawn = np.empty((entered.size, cuts.size))
    for at in range(entered.size):
        _distribution(places, entered[at], cuts, drawn[at])
    below = np.zeros(mine.size)
    above = np.empty(mine.size)
    value = np.empty(mine.size)
    for c in range(1, cuts.size):
        for m in range(mine.size):
            above[m] = 1.0 - places.share[mine[m]] if cuts[c] > mine[m] else 0.0
            for at in range(entered.size):
                above[m] += chance[m, at] * drawn[at, c]
        for node in range(nodes.size):
            value[:] = below + nodes[node] * (above - below)
            for m in range(mine.size):
                product = node_weights[node] * (above[m] - below[m])
                if product != 0.0:
                    for other in range(mine.size):
                        if other != m:
                            product *= value[other]
                    weights[active[m]] += product
        below[:] = above
    return weights


@jit
def _exchanges_of(places: Places, ranks: IntArray) -> tuple[IntArray, FloatArray]:
    """The exchanges that some tokens are members of, and the chances that they enter them.

    Parameters
    ----------
    places : Places
        Of k tokens, trimmed to what is filled.
    ranks : ndarray of int, shape (m,)
        Ranks of the tokens.

    Returns
    -------
    entered : ndarray of int, shape (e,)
        Numbers of the exchanges, ascending.
    chance : ndarray, shape (m, e)
        Probability that each token enters each exchange.
    """
    entered = np.zeros(0, dtype=np.int64)
    for rank in ranks:
        h = places.exchange[rank]
        if h >= 0:
            past = h + 1
            while enters(places, past, rank):
                past += 1
            entered = np.concatenate((entered, np.arange(h, past)))
    entered = np.unique(entered)
    chance = np.zeros((ranks.size, entered.size))
    for m in range(ranks.size):
        h = places.exchange[ranks[m]]
        if h >= 0:
            at = np.searchsorted(entered, h)
            chance[m, at] = contribution_to(places, h, ranks[m]) / places.size[ranks[m]]
            while enters(places, h + 1, ranks[m]):
                h += 1
                at += 1
                chance[m, at] = contribution_to(places, h, ranks[m]) / places.size[ranks[m]]
    return entered, chance


@jit
def _cuts(places: Places, ranks: IntArray, entered: IntArray) -> IntArray:
    """Ranks between which at most one of some tokens or exchanges has places, or just one place lies.

    Recipients of different exchanges do not overlap, save that one may belong to several: then it is the last one of
    one and the first one of the next.  Donors of an exchange are neighbours.

    Parameters
    ----------
    places : Places
        Of k tokens, trimmed to what is filled.
    ranks : ndarray of int, shape (m,)
        Ranks of the tokens.
    entered : ndarray of int, shape (e,)
        Numbers of the exchanges.

    Returns
    -------
    ndarray of int, shape (c,)
        Ascending, from the lowest rank with a place to one past the highest; c <= 2 m + 6 e.
    """
    cuts = np.empty(2 * ranks.size + 6 * entered.size, dtype=np.int64)
    cuts[: ranks.size] = ranks
    cuts[ranks.size : 2 * ranks.size] = ranks + 1
    here = 2 * ranks.size
    for h in entered:
        cuts[here] = places.first_recipient[h]
        cuts[here + 1] = places.first_recipient[h] + 1
        cuts[here + 2] = places.last_recipient[h]
        cuts[here + 3] = places.last_recipient[h] + 1
        cuts[here + 4] = places.first_donor[h]
        cuts[here + 5] = places.donors_end[h]
        here += 6
    return np.unique(cuts)


@jit
def _distribution(places: Places, h: int, cuts: IntArray, drawn: FloatArray) -> None:
    """Fill in the probabilities that exchange h draws a place below each cut.

    Parameters
    ----------
    places : Places
        Of k tokens, trimmed to what is filled.
    h : int
        The exchange.
    cuts : ndarray of int, shape (c,)
        Of `_cuts`.
    drawn : ndarray, shape (c,)
        Filled.
    """
    total = 0.0
    c = 0
    for rank in range(places.first_recipient[h], places.donors_end[h]):
        while cuts[c] <= rank:
            drawn[c] = total
            c += 1
        total += contribution_to(places, h, rank)
    drawn[c:] = total
    if total > 0.0:
        drawn /= total

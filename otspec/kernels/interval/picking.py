"""Picking a draft by places and lotteries (`otspec.kernels.interval.lottery`): by drawing, and by exact integration."""

from __future__ import annotations

import numpy as np

from otspec.jit import jit
from otspec.kernels.interval.lottery import Places
from otspec.laws import FloatArray, IntArray


@jit
def pick_draft(places: Places, ranks: IntArray, uniforms: FloatArray) -> int:
    """Index of the draft that shows the largest point, of its own place or of one drawn from a lottery.

    A point is the pair (rank of the place, fraction): as one float, places smaller than an ulp would run together.

    Parameters
    ----------
    ranks : ndarray of int, shape (n,)
        Ranks of the drafts.
    uniforms : ndarray, shape (n, 3)
        Numbers in [0, 1): which lottery, if any; what is drawn there; the fraction.
    """
    lowest = places.block[np.searchsorted(places.block, ranks.max(), side="right") - 1]
    winner = -1
    best_place = -1
    best_fraction = 0.0
    for m in range(ranks.size):
        rank = ranks[m]
        if rank < lowest:
            continue  # lotteries never leave their block
        place = rank
        if uniforms[m, 0] < places.release[rank]:
            h = places.home[rank]
            position = uniforms[m, 0] * places.size[rank] - stake_in(places, h, rank)
            while position >= 0.0 and enters(places, h + 1, rank):
                h += 1
                position -= stake_in(places, h, rank)
            place = _draw(places, h, uniforms[m, 1] * places.held[h])
        if place > best_place or (place == best_place and uniforms[m, 2] > best_fraction):
            winner, best_place, best_fraction = m, place, uniforms[m, 2]
    return winner


@jit
def enters(places: Places, h: int, rank: int) -> bool:
    """Whether the token of that rank, a member of lottery h - 1, is one of lottery h as well."""
    return h < places.oldest.size and places.oldest[h] == rank and rank < places.giver[h]


@jit
def stake_in(places: Places, h: int, rank: int) -> float:
    """What the token of that rank puts into lottery h."""
    if rank == places.oldest[h] and rank < places.giver[h]:
        return places.head[h]
    if rank == places.newest[h]:
        return places.tail[h]
    if places.home[rank] == h:
        return places.size[rank] * places.release[rank]
    return 0.0


@jit
def _draw(places: Places, h: int, position: float) -> int:
    """The rank at which the running sum of the stakes in lottery h exceeds `position`."""
    drawn = -1
    for rank in range(places.oldest[h], places.past[h]):
        stake = stake_in(places, h, rank)
        if stake > 0.0:
            drawn = rank
            position -= stake
            if position < 0.0:
                break
    return drawn


@jit
def pick_weights(places: Places, ranks: IntArray, nodes: FloatArray, node_weights: FloatArray) -> FloatArray:
    """Exact probability, shape (n,), that each draft shows the largest point.

    With A_m the distribution function of draft m's point, that is the integral over [0, 1] of the product of the
    others' A over dA_m.  Between neighbouring cuts all A are affine in one common variable: within one place, and along
    the members of one lottery.  So the integrand is a polynomial of degree n - 1, and Gauss-Legendre sums integrate it
    exactly.

    Parameters
    ----------
    ranks : ndarray of int, shape (n,)
        Ranks of the drafts.
    nodes, node_weights : ndarray
        Gauss-Legendre rule on [0, 1] that is exact for degree n - 1.
    """
    weights = np.zeros(ranks.size)
    lowest = places.block[np.searchsorted(places.block, ranks.max(), side="right") - 1]
    active = np.flatnonzero(ranks >= lowest)
    mine = ranks[active]
    if mine.min() == mine.max():
        weights[active] = 1.0 / active.size
        return weights
    entered, chance = _lotteries_of(places, mine)
    cuts = _cuts(places, mine, entered)
    drawn = np.empty((entered.size, cuts.size))
    for at in range(entered.size):
        _distribution(places, entered[at], cuts, drawn[at])
    below = np.zeros(mine.size)
    above = np.empty(mine.size)
    value = np.empty(mine.size)
    for c in range(1, cuts.size):
        for m in range(mine.size):
            above[m] = 1.0 - places.release[mine[m]] if cuts[c] > mine[m] else 0.0
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
def _lotteries_of(places: Places, ranks: IntArray) -> tuple[IntArray, FloatArray]:
    """The lotteries that the tokens of these ranks are members of, ascending, and the chances that they enter them."""
    entered = np.zeros(0, dtype=np.int64)
    for rank in ranks:
        h = places.home[rank]
        if h >= 0:
            past = h + 1
            while enters(places, past, rank):
                past += 1
            entered = np.concatenate((entered, np.arange(h, past)))
    entered = np.unique(entered)
    chance = np.zeros((ranks.size, entered.size))
    for m in range(ranks.size):
        h = places.home[ranks[m]]
        if h >= 0:
            at = np.searchsorted(entered, h)
            chance[m, at] = stake_in(places, h, ranks[m]) / places.size[ranks[m]]
            while enters(places, h + 1, ranks[m]):
                h += 1
                at += 1
                chance[m, at] = stake_in(places, h, ranks[m]) / places.size[ranks[m]]
    return entered, chance


@jit
def _cuts(places: Places, ranks: IntArray, entered: IntArray) -> IntArray:
    """Ranks, ascending, between which at most one of the given tokens or lotteries has places, or just one place lies.

    Seekers of different lotteries do not overlap, save that one may belong to several: then it is the newest of one,
    the oldest of the next.  Givers of a lottery are neighbours.
    """
    cuts = np.empty(2 * ranks.size + 6 * entered.size, dtype=np.int64)
    cuts[: ranks.size] = ranks
    cuts[ranks.size : 2 * ranks.size] = ranks + 1
    here = 2 * ranks.size
    for h in entered:
        cuts[here] = places.oldest[h]
        cuts[here + 1] = places.oldest[h] + 1
        cuts[here + 2] = places.newest[h]
        cuts[here + 3] = places.newest[h] + 1
        cuts[here + 4] = places.giver[h]
        cuts[here + 5] = places.past[h]
        here += 6
    return np.unique(cuts)


@jit
def _distribution(places: Places, h: int, cuts: IntArray, drawn: FloatArray) -> None:
    """Fill in the probabilities that lottery h draws a place below each cut."""
    total = 0.0
    c = 0
    for rank in range(places.oldest[h], places.past[h]):
        while cuts[c] <= rank:
            drawn[c] = total
            c += 1
        total += stake_in(places, h, rank)
    drawn[c:] = total
    if total > 0.0:
        drawn /= total

"""Who owns which part of [0, 1]: the labels of prefixes, and how they compare.

`docs/paths.md` has the statement and the proof; in short:

* Every drafted path carries one label, uniform on [0, 1].  What a prefix v owns of the labels is described by the law
  of the label of a path through v, its `Label`: a step density on few pieces.  The root owns all.
* The children of v own *places* along v's own coordinate t in [0, 1] (t = how much of v's labels lie lower);
  `otspec.paths.sharing` lays them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from otspec.jit import jit
from otspec.laws import FloatArray, IndexArray, IntArray

LEAST = 1e-290
"""Places are at least so long, pieces at least so likely: quotients of lengths then stay within floats."""


class Label(NamedTuple):
    """Law of the label of a path through a prefix: uniform on each piece; pieces ascend and do not overlap.

    In the unit `scale`, in which the last piece ends at 1: labels of rare prefixes would run out of floats.
    """

    low: FloatArray
    """Shape (pieces,): where each begins."""
    length: FloatArray
    """Shape (pieces,): how long it is; as an end, pieces below an ulp of `low` would vanish."""
    share: FloatArray
    """Shape (pieces,): probability of each."""
    scale: float


class ChildPlaces(NamedTuple):
    """The places of a prefix's children along its coordinate, and the swaps; *ranks* count places upwards.

    Places belong to groups of tokens; a group may have several, and its tokens share them in proportion to q.
    """

    group: IntArray
    """Shape (V,): the group of each token, -1 if it cannot be drafted."""
    owner: IntArray
    """Shape (k,): the group of each rank."""
    size: FloatArray
    """Shape (k,): the length of each place; they sum to 1."""
    piece: IntArray
    """Shape (k,): the piece of the prefix's label in which each begins."""
    used: FloatArray
    """Shape (k,): how much of that piece lies lower."""
    kept: FloatArray
    """Shape (k,): what its token keeps of each place."""
    seeker: IndexArray
    """Shape (swaps,): rank of the lower place of each swap."""
    giver: IndexArray
    """Shape (swaps,): rank of the higher one."""
    amount: FloatArray
    """Shape (swaps,): length that changes hands, both ways."""
    proposal: FloatArray
    """Shape (V,): law of the next token, given that a picked path goes through the prefix, by the swaps as they are."""


class Owned(NamedTuple):
    """The parts of places that one group owns."""

    rank: IntArray
    """Ascending."""
    amount: FloatArray


@jit
def whole() -> Label:
    """The label of the root."""
    return Label(np.zeros(1), np.ones(1), np.ones(1), 1.0)


@jit
def owned_by(places: ChildPlaces, token: int) -> Owned:
    """What the group of a token owns, place by place."""
    mine = places.group[token]
    amount = np.zeros(places.owner.size)
    for j in range(amount.size):
        if places.owner[j] == mine:
            amount[j] += places.kept[j]
    for s in range(places.amount.size):
        low, high = places.seeker[s], places.giver[s]
        if places.owner[low] == mine:
            amount[high] += places.amount[s]
        if places.owner[high] == mine:
            amount[low] += places.amount[s]
    rank = np.flatnonzero(amount)
    return Owned(rank, amount[rank])


@jit
def label_of(owned: Owned, places: ChildPlaces, label: Label) -> Label:
    """The label of a child, from what it owns of its parent's."""
    low, length, share = [0.0 for _ in range(0)], [0.0 for _ in range(0)], [0.0 for _ in range(0)]
    total = owned.amount.sum()
    last = label.share.size - 1
    for at in range(owned.rank.size):
        j = owned.rank[at]
        i = places.piece[j]
        inside = places.used[j]
        need = places.size[j]
        part = owned.amount[at] / total
        while True:
            left = max(label.share[i] - inside, 0.0)
            take = need if i == last or need <= left else left
            taken = part * (take / places.size[j])
            if taken > LEAST:
                stretch = label.length[i] / label.share[i]
                low.append(label.low[i] + inside * stretch)
                length.append(take * stretch)
                share.append(taken)
            if i == last or need <= left:
                break
            need -= take
            i += 1
            inside = 0.0
    unit = low[-1] + length[-1]
    if not unit > 0.0:  # out of floats: such a path never wins
        return Label(np.zeros(1), np.ones(1), np.ones(1), label.scale)
    return Label(np.array(low) / unit, np.array(length) / unit, np.array(share), label.scale * unit)


@jit
def place_at(owned: Owned, position: float) -> tuple[int, float]:
    """From a token's own coordinate to the place and the fraction of it: the labels in between, monotonely."""
    before = position * owned.amount.sum()
    at = 0
    while at < owned.rank.size - 1 and before >= owned.amount[at]:
        before -= owned.amount[at]
        at += 1
    return owned.rank[at], min(before / owned.amount[at], 1.0)


@jit
def coordinate(places: ChildPlaces, rank: int, fraction: float) -> float:
    """From a place and a fraction of it to the coordinate of the prefix."""
    return min(places.size[:rank].sum() + fraction * places.size[rank], 1.0)


@jit
def below(mine: Label, other: Label, wins_ties: bool) -> tuple[FloatArray, FloatArray]:
    """P(the other label is the smaller one), as a function of the coordinate of mine, which is uniform on [0, 1].

    Both labels are in the coordinate of one node.  The function is affine between the points that are returned, and
    may jump where two of them coincide.  Pieces are compared by the differences of their ends, so that short ones keep
    what floats know of them.

    Parameters
    ----------
    wins_ties : bool
        Whether mine wins where floats cannot tell two pieces apart.

    Returns
    -------
    at, value : ndarray
    """
    unit = max(mine.scale, other.scale)
    scale, of_other = mine.scale / unit, other.scale / unit
    at, value = [0.0 for _ in range(0)], [0.0 for _ in range(0)]
    start, passed, first = 0.0, 0.0, 0
    for i in range(mine.share.size):
        low, length, share = mine.low[i] * scale, mine.length[i] * scale, mine.share[i]
        while first < other.share.size:
            ahead = other.low[first] * of_other - low
            if ahead >= 0.0 or ahead + other.length[first] * of_other > 0.0:
                break
            passed += other.share[first]
            first += 1
        at.append(start)
        done = passed
        for j in range(first, other.share.size):
            ahead, extent = other.low[j] * of_other - low, other.length[j] * of_other
            if ahead == 0.0 and extent == 0.0 and length == 0.0 and wins_ties:
                done += other.share[j]
                continue
            if ahead >= length:
                break
            if ahead > 0.0:
                if len(value) < len(at):
                    value.append(done)
                at.append(start + share * (ahead / length))
                value.append(done)
            elif len(value) < len(at):
                value.append(done + other.share[j] * (-ahead / extent if ahead < 0.0 else 0.0))
            if ahead + extent > length:
                at.append(start + share)
                value.append(done + other.share[j] * ((length - ahead) / extent))
                break
            done += other.share[j]
            at.append(start + share * ((ahead + extent) / length))
            value.append(done)
        if len(value) < len(at):
            value.append(done)
        start += share
        if at[-1] < start:
            at.append(start)
            value.append(done)
    return np.array(at), np.array(value)


def largest(labels: Sequence[Sequence[Label]]) -> FloatArray:
    """Exact probability that each of several independent labels is the largest, shape (K,).

    Given its own coordinate, a label exceeds each of the others with a probability that is affine between the points
    of `below`; so their product is a polynomial of degree K - 1 there, which Gauss-Legendre sums integrate exactly.

    Parameters
    ----------
    labels : sequence of K sequences of K
        Entry (k, m) is label k in a coordinate in which it can be compared with label m; the diagonal is not read.
    """
    count = len(labels)
    nodes, node_weights = np.polynomial.legendre.leggauss((count + 1) // 2)
    chances = np.empty(count)
    for k in range(count):
        beaten = [below(labels[k][m], labels[m][k], k > m) for m in range(count) if m != k]
        cuts = np.unique(np.concatenate([[0.0, 1.0], *(np.minimum(at, 1.0) for at, _ in beaten)]))
        width = np.diff(cuts)
        at = cuts[:-1, None] + width[:, None] * (0.5 + 0.5 * nodes)
        product = np.ones_like(at)
        for points, values in beaten:
            product *= np.interp(at, np.maximum.accumulate(points), values)
        chances[k] = width @ (product @ (0.5 * node_weights))
    return chances

"""Who owns which part of [0, 1]: the labels of prefixes, and how they compare.

`docs/paths.md` has the statement and the proof; in short:

* Every drafted path carries one label, uniform on [0, 1].  What a prefix v owns of the labels is described by the law
  of the label of a path through v, its `Label`: a step density on few pieces.  The root owns all.
* The children of v own *places* along v's own coordinate s in [0, 1] (s = how much of v's labels lie lower);
  `otspec.verification.rules.nested.sharing` lays them.
* Where v has b children, the largest of their labels is v's label: at s among its children's, it is at t = s**b among
  what v owns of its parent's.  A label is then uniform on pieces in s, and goes through a power at every such prefix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from otspec.jit import jit
from otspec.laws import FloatArray, IndexArray, IntArray
from otspec.verification.rules.nested.powers import climb, root_length

LEAST = 1e-290
"""Places are at least so long, pieces at least so likely: quotients of lengths then stay within floats."""


class Label(NamedTuple):
    """Law of the label of a path through a prefix, in one row for each prefix above that has several children.

    Pieces ascend and do not overlap.  In the last row the label is uniform on each piece; the power of the last row's
    piece, stretched, is the piece in the row before, and so up to the first row.  A row is in a unit in which its last
    piece ends at 1: labels of rare prefixes would run out of floats.
    """

    low: FloatArray
    """Shape (rows, pieces): where each begins."""
    length: FloatArray
    """Shape (rows, pieces): how long it is; as an end, pieces below an ulp of `low` would vanish."""
    share: FloatArray
    """Shape (pieces,): probability of each."""
    power: IntArray
    """Shape (rows - 1,): the powers that lead from the second row to the first, from the third to the second, ..."""
    scale: float
    """The unit of the first row."""


class ChildPlaces(NamedTuple):
    """The places of a prefix's children along its coordinate, and the swaps; *ranks* count places upwards.

    Places belong to groups of tokens; a group may have several, and its tokens share them in proportion to q.
    """

    group: IndexArray
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
    recipient: IndexArray
    """Shape (swaps,): rank of the lower place of each swap."""
    donor: IndexArray
    """Shape (swaps,): rank of the higher one."""
    amount: FloatArray
    """Shape (swaps,): length that changes hands, both ways."""
    draft: FloatArray
    """Shape (V,): the draft law."""
    tilt: FloatArray
    """Shape (groups,): how many times as likely each group's tokens are in the proposal, by the swaps as they are."""

    @property
    def proposal(self) -> FloatArray:
        """Shape (V,): law of the next token, given that a picked path goes through the prefix."""
        return proposal_of(self)


class Owned(NamedTuple):
    """The parts of places that one group owns."""

    rank: IntArray
    """Shape (parts,): the place of each part, ascending."""
    amount: FloatArray
    """Shape (parts,): how long each is."""


@jit
def whole() -> Label:
    """The label of the root."""
    return Label(np.zeros((1, 1)), np.ones((1, 1)), np.ones(1), np.empty(0, dtype=np.int64), 1.0)


@jit
def branch(label: Label, children: int) -> Label:
    """What a prefix owns, as the law of the label of any one of its children, of which the largest is the prefix's."""
    if children == 1:
        return label
    rows, pieces = label.low.shape
    low, length = np.empty((rows + 1, pieces)), np.empty((rows + 1, pieces))
    low[:rows], length[:rows] = label.low, label.length
    passed = 0.0
    for i in range(pieces):
        low[rows, i] = passed ** (1.0 / children)
        length[rows, i] = root_length(passed, label.share[i], children)
        passed += label.share[i]
    low[rows] /= passed ** (1.0 / children)
    length[rows] /= length[rows].sum()
    return Label(low, length, length[rows].copy(), np.append(label.power, children), label.scale)


@jit
def idle(q: FloatArray) -> ChildPlaces:
    """Places of children that own everything in common, for a prefix that has one child only.

    Parameters
    ----------
    q : ndarray, shape (V,)
        The draft law.
    """
    group = np.full(q.size, -1, dtype=np.int32)
    for x in range(q.size):
        if q[x] > 0.0:
            group[x] = 0
    none, one = np.empty(0, dtype=np.int32), np.ones(1)
    at = np.zeros(1, dtype=np.int64)
    return ChildPlaces(group, at, one, at, np.zeros(1), one, none, none, np.empty(0), q, one)


@jit
def proposal_at(places: ChildPlaces, token: int) -> float:
    """Probability of a token, given that a picked path goes through the prefix."""
    mine = places.group[token]
    return places.draft[token] * places.tilt[mine] if mine >= 0 else 0.0


@jit
def proposal_of(places: ChildPlaces) -> FloatArray:
    """Law of the next token, shape (V,), given that a picked path goes through the prefix."""
    group, draft, tilt = places.group, places.draft, places.tilt
    law = np.empty(draft.size)
    for x in range(law.size):
        law[x] = draft[x] * tilt[group[x]] if group[x] >= 0 else 0.0
    return law


@jit
def owned_by(places: ChildPlaces, token: int) -> Owned:
    """What the group of a token owns, place by place."""
    mine = places.group[token]
    owner, kept, swapped, recipient, donor = places.owner, places.kept, places.amount, places.recipient, places.donor
    amount = np.zeros(owner.size)
    for j in range(owner.size):
        if owner[j] == mine:
            amount[j] += kept[j]
    for s in range(swapped.size):
        low, high = recipient[s], donor[s]
        if owner[low] == mine:
            amount[high] += swapped[s]
        if owner[high] == mine:
            amount[low] += swapped[s]
    rank = np.flatnonzero(amount)
    return Owned(rank, amount[rank])


@jit
def label_of(owned: Owned, size: FloatArray, piece: IntArray, used: FloatArray, label: Label) -> Label:
    """The label of a child, from what it owns of its parent's; places are laid along that as `ChildPlaces` has them."""
    of_low, of_length, of_share, powers = label.low, label.length, label.share, label.power
    rank, amount = owned.rank, owned.amount
    rows, last = of_low.shape[0], of_share.size - 1
    most = rank.size + of_share.size
    low, length, share = np.empty((rows, most)), np.empty((rows, most)), np.empty(most)
    pieces = 0
    total = amount.sum()
    for at in range(rank.size):
        j = rank[at]
        i = piece[j]
        inside = used[j]
        need = size[j]
        part = amount[at] / total
        while True:
            left = max(of_share[i] - inside, 0.0)
            take = need if i == last or need <= left else left
            taken = part * (take / size[j])
            if taken > LEAST:
                start, extent, unit = inside, take, of_share[i]
                for row in range(rows - 1, -1, -1):
                    stretch = of_length[row, i] / unit
                    start, extent, unit = start * stretch, extent * stretch, 1.0
                    low[row, pieces], length[row, pieces] = of_low[row, i] + start, extent
                    if row > 0:
                        start, extent = climb(of_low[row, i], of_length[row, i], start, extent, powers[row - 1])
                share[pieces] = taken
                pieces += 1
            if i == last or need <= left:
                break
            need -= take
            i += 1
            inside = 0.0
    low, length, share = low[:, :pieces].copy(), length[:, :pieces].copy(), share[:pieces].copy()
    unit = 0.0
    for row in range(rows - 1, -1, -1):
        unit = low[row, -1] + length[row, -1] if pieces else 0.0
        if not unit > 0.0:  # out of floats: such a path never wins
            return Label(np.zeros((rows, 1)), np.ones((rows, 1)), np.ones(1), label.power, label.scale)
        low[row] /= unit
        length[row] /= unit
    return Label(low, length, share, label.power, label.scale * unit)


@jit
def place_at(owned: Owned, position: float) -> tuple[int, float]:
    """From a token's own coordinate to the place and the fraction of it: the labels in between, monotonely."""
    rank, amount = owned.rank, owned.amount
    before = position * amount.sum()
    at = 0
    while at < rank.size - 1 and before >= amount[at]:
        before -= amount[at]
        at += 1
    return rank[at], min(before / amount[at], 1.0)


@jit
def coordinate(places: ChildPlaces, rank: int, fraction: float) -> float:
    """From a place and a fraction of it to the coordinate of the prefix."""
    return min(places.size[:rank].sum() + fraction * places.size[rank], 1.0)

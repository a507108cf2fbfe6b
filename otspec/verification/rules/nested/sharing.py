"""How a prefix shares its labels among its children: the kernels that refine [0, 1], one prefix after the other.

* The children are laid as *places* along the prefix's coordinate, in ascending order of p/q, each as long as its q.
  The places are measured with the law of the largest of K labels, and the least concave majorant cuts them into
  blocks, as in `otspec.kernels.interval`.
* In a block, every token that is worth less than its due *swaps* parts of its place, measure for measure, with later
  tokens that are worth more.  A swap of the amount e between places of density d < d' moves e (d' - d).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from otspec.jit import jit
from otspec.kernels.interval.exchange import LEVEL
from otspec.kernels.majorant import concave_blocks
from otspec.laws import FloatArray, IndexArray, IntArray
from otspec.verification.rules.nested.labels import LEAST, ChildPlaces, Label
from otspec.verification.rules.nested.powers import climb, power_density
from otspec.verification.rules.nested.ranking import FINEST, bucket, rank_all


class Sharing(NamedTuple):
    """How a prefix shares its labels among its children.

    `spread` and `grain` are look-ahead: they widen what a token owns, at the cost of the present level, for the sake of
    later ones.  The tokens whose proposal exceeds weight * p stay among themselves, the others too, so that the cost is
    small.
    """

    spread: FloatArray
    """Shape (J,): ascending, mean 1.  Every token is split into J of equal q whose p are p / J times these."""
    grain: float
    """Tokens are joined to a group while their p/q differ by less than this share."""
    swap: bool
    """Whether tokens swap parts of their places.  If not, paths are ranked, first tokens first."""
    top: float
    """Tokens whose p/q is at least this form one group."""


PLAIN = Sharing(np.ones(1), 0.0, True, np.inf)
"""Every level is served as well as can be: only tokens of equal p/q are joined."""

RANKED = Sharing(np.ones(1), 0.0, False, 1.0)
"""Siblings rank by min(1, p/q)."""


@jit
def measure_places(
    size: FloatArray, label: Label, count: int, piece: IntArray, used: FloatArray, density: FloatArray
) -> None:
    """Lay places of these sizes end to end along the coordinate of a label; fill in where, and their densities.

    The density of a place is that of the winner's label, in the label's own units: in the first row that of the largest
    of `count` labels, and each other row's power brings a factor of its own.
    The last piece takes whatever rounding leaves over.

    Parameters
    ----------
    size : ndarray, shape (m,)
        How long each place is; together they fill the coordinate, which ends at 1.
    label : Label
    count : int
        How many labels there are.
    piece : ndarray of int, shape (m,)
        Filled in: the piece of the label in which each place begins.
    used : ndarray, shape (m,)
        Filled in: how much of that piece lies lower.
    density : ndarray, shape (m,)
        Filled in.
    """
    low, length, share, powers = label.low, label.length, label.share, label.power
    i = 0
    inside = 0.0
    last = share.size - 1
    bottom, stretch, room = low[0, 0], length[0, 0] / share[0], share[0]  # of the piece at hand, in its first row
    for j in range(size.size):
        piece[j] = i
        used[j] = inside
        need = size[j]
        mean = 0.0
        while True:
            left = max(room - inside, 0.0)
            take = need if i == last or need <= left else left
            if powers.size == 0:
                here = power_density(bottom + inside * stretch, take * stretch, count)
            else:
                here, start, extent, unit = 1.0, inside, take, room
                for row in range(powers.size, 0, -1):
                    start, extent = start * (length[row, i] / unit), extent * (length[row, i] / unit)
                    here *= power_density(low[row, i] + start, extent, powers[row - 1])
                    start, extent = climb(low[row, i], length[row, i], start, extent, powers[row - 1])
                    unit = 1.0
                here *= power_density(bottom + start * length[0, i], extent * length[0, i], count)
            if i == last or need <= left:
                mean += here if need == size[j] else need / size[j] * here
                inside += need
                break
            mean += take / size[j] * here
            need -= take
            i += 1
            inside = 0.0
            bottom, stretch, room = low[0, i], length[0, i] / share[i], share[i]
        density[j] = mean


@jit
def refine(p: FloatArray, q: FloatArray, count: int, label: Label, weight: float, sharing: Sharing) -> ChildPlaces:
    """Share what a prefix owns among its children.

    Parameters
    ----------
    p, q : ndarray, shape (V,)
        Target and draft law after the prefix.
    count : int
        Of how many labels the largest wins, in the first row of the label.
    label : Label
        Of any one child of the prefix.
    weight : float
        The block-verification weight of the prefix; only look-ahead uses it.
    sharing : Sharing
    """
    ranked = bucket(p, q, sharing.grain) if sharing.grain >= FINEST else rank_all(p, q)
    target, size = ranked.target, np.maximum(ranked.size, LEAST)
    k = cut = size.size
    if sharing.spread.size > 1 or sharing.grain > 0.0:
        piece, used, density = np.empty(k, dtype=np.int64), np.empty(k), np.empty(k)
        measure_places(size, label, count, piece, used, density)
        cut = over_drafted(target, size, density, weight)
    joined = np.empty(k, dtype=np.int64)
    groups, cut = join(target, size, cut, sharing.grain, sharing.top, joined)
    group, tokens, bucket_of, rank = np.full(q.size, -1, dtype=np.int32), ranked.tokens, ranked.bucket, ranked.rank
    for i in range(tokens.size):
        group[tokens[i]] = joined[rank[bucket_of[i]]]
    target, size = target[:groups], size[:groups]
    mass = size.copy()
    owner, target, size = split(target, size, cut, sharing.spread)
    cut *= sharing.spread.size
    m = owner.size
    piece, used, density = np.empty(m, dtype=np.int64), np.empty(m), np.empty(m)
    measure_places(size, label, count, piece, used, density)
    kept = size.copy()
    recipient, donor, amount = np.empty(m, dtype=np.int32), np.empty(m, dtype=np.int32), np.empty(m)
    end, rise, run = np.empty(m + 1, dtype=np.int32), np.empty(m + 1), np.empty(m + 1)
    swaps = 0
    for first, last in ((0, cut), (cut, m)):
        blocks = concave_blocks(target[first:last], size[first:last], density[first:last], end, rise, run)
        for b in range(blocks):
            if sharing.swap and end[b + 1] - end[b] > 1 and run[b + 1] > 0.0:
                slope = rise[b + 1] / run[b + 1]
                swaps = swap_in_block(
                    first + end[b],
                    first + end[b + 1],
                    slope,
                    target,
                    size,
                    density,
                    kept,
                    recipient,
                    donor,
                    amount,
                    swaps,
                )
    worth = np.zeros(groups)
    for j in range(m):
        worth[owner[j]] += kept[j] * density[j]
    for s in range(swaps):
        worth[owner[recipient[s]]] += amount[s] * density[donor[s]]
        worth[owner[donor[s]]] += amount[s] * density[recipient[s]]
    total = worth.sum()
    # Labels may be so low that their measure underflows: such a path never wins, and its proposal is the draft law.
    tilt = worth / total / mass if total > 0.0 else np.ones(groups)
    return ChildPlaces(group, owner, size, piece, used, kept, recipient[:swaps], donor[:swaps], amount[:swaps], q, tilt)


@jit
def join(target: FloatArray, size: FloatArray, cut: int, grain: float, top: float, group: IntArray) -> tuple[int, int]:
    """Join ranks of nearly equal p/q, or of at least `top`, on either side of the cut.

    Returns the number of groups, and of those below the cut.

    Parameters
    ----------
    target, size : ndarray, shape (k,)
        p and q of the ranks, overwritten with those of the groups.
    group : ndarray of int, shape (k,)
        Filled in for the ranks.
    """
    groups = 0
    below = 0
    first = -1.0  # p/q of the first rank of the group
    for j in range(size.size):
        ratio = target[j] / size[j]
        if j == cut:
            below = groups
            first = -1.0
        if first >= 0.0 and (ratio <= first * (1.0 + grain) or first >= top):
            target[groups - 1] += target[j]
            size[groups - 1] += size[j]
        else:
            target[groups], size[groups] = target[j], size[j]
            groups += 1
            first = ratio
        group[j] = groups - 1
    return groups, groups if cut == size.size else below


@jit
def over_drafted(target: FloatArray, size: FloatArray, density: FloatArray, weight: float) -> int:
    """How many ranks lie in blocks whose proposal exceeds weight * p; they come first.

    Parameters
    ----------
    target, size : ndarray, shape (k,)
        p and q of the ranks.
    density : ndarray, shape (k,)
        Of their places, as `measure_places` fills it in.
    weight : float
        As in `refine`.
    """
    k = size.size
    end, rise, run = np.empty(k + 1, dtype=np.int32), np.empty(k + 1), np.empty(k + 1)
    total = (size * density).sum()
    ranks = 0
    for b in range(concave_blocks(target, size, density, end, rise, run)):
        if rise[b + 1] > weight * total * run[b + 1]:
            ranks = end[b + 1]
    return ranks


@jit
def split(
    target: FloatArray, size: FloatArray, cut: int, spread: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Split every group by the spread of `Sharing`; ascending order of p/q below the cut, and again above it.

    Parameters
    ----------
    target, size : ndarray, shape (groups,)
        p and q of the groups.
    cut : int
        How many of them lie below the cut.
    spread : ndarray, shape (J,)
        As `Sharing` has it.

    Returns
    -------
    owner, target, size : ndarray, shape (groups * J,)
        The group of each part, and p and q of the parts.
    """
    parts = spread.size
    if parts == 1:
        return np.arange(size.size), target, size
    many = size.size * parts
    owner, targets, sizes = np.empty(many, dtype=np.int64), np.empty(many), np.empty(many)
    ratio = np.minimum(target / size, 1e300)  # infinity is for lists at their end
    head = np.empty(parts, dtype=np.int64)
    waiting = np.empty(parts)
    at = 0
    for first, last in ((0, cut), (cut, size.size)):
        if first == last:
            continue
        head[:] = first  # the first parts of all groups are in order, and so are the second parts, and so on: merge
        waiting[:] = ratio[first] * spread
        for _ in range((last - first) * parts):
            best = 0
            for c in range(1, parts):
                if waiting[c] < waiting[best]:
                    best = c
            j = head[best]
            owner[at], targets[at], sizes[at] = j, target[j] * spread[best] / parts, size[j] / parts
            head[best] = j + 1
            waiting[best] = ratio[j + 1] * spread[best] if j + 1 < last else np.inf
            at += 1
    return owner, targets, sizes


@jit
def swap_in_block(
    first: int,
    last: int,
    slope: float,
    target: FloatArray,
    size: FloatArray,
    density: FloatArray,
    kept: FloatArray,
    recipient: IndexArray,
    donor: IndexArray,
    amount: FloatArray,
    swaps: int,
) -> int:
    """Swap until every token of the block owns the measure slope * p, and return the number of all swaps so far.

    A token worth less than that is a recipient, one worth more a donor.  Every donor hands its surplus to the
    recipients that have waited longest.  Recipients come before their donors in the order of p/q, so
    density <= due/q <= due/q of the donor <= density of the donor, and no token swaps more than its place.

    Parameters
    ----------
    first, last : int
        The ranks of the block are those from the first on, up to the last, which is not among them.
    slope : float
        Of the majorant there.
    target, size, density : ndarray, shape (m,)
        p and q of all ranks, and the densities of their places.
    kept : ndarray, shape (m,)
        What each keeps of its place; updated.
    recipient, donor : ndarray of int, shape (m,)
        Filled in from the entry `swaps` on: the ranks of each swap.
    amount : ndarray, shape (m,)
        Filled in likewise: the length that changes hands.
    swaps : int
        How many there are of the blocks before.
    """
    wanted = 0.0
    waiting = first
    for j in range(first, last):
        surplus = size[j] * density[j] - slope * target[j]
        if surplus <= LEVEL * size[j] * density[j]:
            continue
        while surplus > 0.0 and waiting < j:
            if wanted == 0.0:
                wanted = slope * target[waiting] - size[waiting] * density[waiting]
                if wanted <= LEVEL * size[waiting] * density[waiting]:
                    wanted = 0.0
                    waiting += 1
                    continue
            moved = min(wanted, surplus)
            most = min(kept[waiting], kept[j])
            step = density[j] - density[waiting]
            swapped = moved / step if moved < most * step else most
            if step > 0.0 and swapped > 0.0:
                kept[waiting] -= swapped
                kept[j] -= swapped
                recipient[swaps], donor[swaps], amount[swaps] = waiting, j, swapped
                swaps += 1
            surplus -= moved
            wanted -= moved
            if wanted == 0.0:
                waiting += 1
    return swaps

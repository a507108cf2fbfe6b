"""The kernels of the `interval` solver: places on [0, 1], blocks of the least concave majorant, and lotteries.

`docs/interval.md` has the statement and the proof; in short:

* Sort the tokens by p/q, ascending.  Each owns a *place* on [0, 1], as long as its q, one after the other.  If every
  draft shows a uniform point of its own place, the points are i.i.d. uniform, and the largest of n falls into the place
  [x, x + q] with probability (x + q)**n - x**n, its *measure*: q times its *density*.
* The least concave majorant of the cumulative measures against p cuts the order into *blocks*; on each, g = slope * p
  is the law that the picked token should have.
* In a block some places are worth less than the g of their tokens, and higher ones more.  So tokens put part of their
  place into a *lottery*: each gets back as much as it gave away, drawn at random from all that was given.  What is
  drawn has the mean density of what was put in, the *pivot*, which lies between the two sides.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np

from otspec.jit import jit
from otspec.kernels.interval.ratio_sort import KeyArray, sort_by_ratio
from otspec.kernels.majorant import concave_blocks
from otspec.laws import FloatArray, IndexArray
from otspec.tolerances import TIE_TOL

CHUNK = 64
"""Tokens summed up before they are added to the total: cumulative sums then err by V / CHUNK roundings, not V."""
LEVEL = 1e-15
"""A place worth at most this share more than the g of its token gives nothing away: the difference is rounding."""


class Places(NamedTuple):
    """Who owns which part of [0, 1], for the k tokens that can be drafted; *ranks* count them in ascending p/q.

    Lottery h has as members the *seekers* among the ranks oldest[h] to newest[h], those with home h and the two ends,
    and the *givers*, all ranks from giver[h] up to past[h].  A seeker may belong to several lotteries; it is then the
    newest member of one and the oldest of the next.
    """

    order: IndexArray
    """Shape (k,): the token of each rank."""
    size: FloatArray
    """Shape (k,): q, the size of the place."""
    release: FloatArray
    """Shape (k,): the share of its place that the token gives to lotteries, in [0, 1]."""
    home: IndexArray
    """Shape (k,): the first lottery of the token, or -1."""
    proposal: FloatArray
    """Shape (k,): g, the law of the pick, computed from the lotteries as they are."""
    block: IndexArray
    """Shape (blocks + 1,): block b holds the ranks block[b] to block[b + 1]."""
    oldest: IndexArray
    """Shape (lotteries,), like all that follow: the first seeker; giver, if there is none."""
    newest: IndexArray
    """The last seeker; giver - 1, if there is none."""
    giver: IndexArray
    """The first giver."""
    past: IndexArray
    """One rank past the last giver."""
    head: FloatArray
    """What the oldest seeker puts in.  Those between oldest and newest put in release * size."""
    tail: FloatArray
    """What the newest seeker puts in; head, if they are the same."""
    held: FloatArray
    """Size of all that is put in."""
    pivot: FloatArray
    """Its mean density."""


class Workspace(NamedTuple):
    """Working memory, to be used again: fresh pages would cost as much as the solver."""

    keys: KeyArray
    """Shape (2, V)."""
    target: FloatArray
    """Shape (V,): p by rank."""
    density: FloatArray
    """Shape (V,): mean of n u**(n-1) over each place, by rank."""
    rise: FloatArray
    """Shape (V + 1,): measure of each block, from 1."""
    run: FloatArray
    """Shape (V + 1,): p of each block, from 1."""


class Sizes(NamedTuple):
    """How much of its arrays a `Places` fills."""

    tokens: int
    blocks: int
    lotteries: int


def room_for(vocab: int) -> Places:
    """Arrays for the places of up to `vocab` tokens.  What stays unused costs address space only."""
    half = vocab // 2 + 1  # every lottery has a giver, and between the givers of two is a token that is none
    order, home, block = (np.empty(vocab + 1, dtype=np.int32) for _ in range(3))
    size, release, proposal = (np.empty(vocab) for _ in range(3))
    oldest, newest, giver, past = (np.empty(half, dtype=np.int32) for _ in range(4))
    head, tail, held, pivot = (np.empty(half) for _ in range(4))
    return Places(order, size, release, home, proposal, block, oldest, newest, giver, past, head, tail, held, pivot)


def workspace(vocab: int) -> Workspace:
    """Working memory for up to `vocab` tokens."""
    target, density = np.empty(vocab), np.empty(vocab)
    rise, run = np.empty(vocab + 1), np.empty(vocab + 1)
    return Workspace(np.empty((2, vocab), dtype=np.uint64), target, density, rise, run)


class Memory(threading.local):
    """Working memory and room of each thread, for as many tokens as the largest vocabulary that it has met."""

    vocab = -1
    work: Workspace
    room: Places

    def of(self, vocab: int) -> Memory:
        """The same, large enough for a vocabulary."""
        if self.vocab < vocab:
            self.work, self.room, self.vocab = workspace(vocab), room_for(vocab), vocab
        return self


memory = Memory()


def trim(room: Places, sizes: Sizes) -> Places:
    """The part of the arrays that was filled."""
    k, blocks, lotteries = sizes.tokens, sizes.blocks, sizes.lotteries
    return Places(
        room.order[:k],
        room.size[:k],
        room.release[:k],
        room.home[:k],
        room.proposal[:k],
        room.block[: blocks + 1],
        room.oldest[:lotteries],
        room.newest[:lotteries],
        room.giver[:lotteries],
        room.past[:lotteries],
        room.head[:lotteries],
        room.tail[:lotteries],
        room.held[:lotteries],
        room.pivot[:lotteries],
    )


trim_compiled = jit(trim)


@jit
def solve_and_certify(
    p: Any, q: Any, p_scale: float, q_scale: float, n: int, work: Workspace, room: Places
) -> tuple[Sizes, float, float]:
    """`hold_lotteries`, then `certify`."""
    sizes = hold_lotteries(p, q, p_scale, q_scale, n, work, room)
    acceptance, bound = certify(n, work, room, sizes)
    return sizes, acceptance, bound


@jit
def hold_lotteries(p: Any, q: Any, p_scale: float, q_scale: float, n: int, work: Workspace, room: Places) -> Sizes:
    """Solve for the laws p * p_scale and q * q_scale, both of shape (V,), and n drafts; the result lies in `room`."""
    k = sort_by_ratio(p, q, p_scale, q_scale, work.keys, room.order, work.target, room.size)
    measure_places(room.size[:k], n, work.density)
    blocks = concave_blocks(work.target[:k], room.size, work.density, room.block, work.rise, work.run)
    lotteries = 0
    for b in range(blocks):
        first, last = room.block[b], room.block[b + 1]
        if last - first > 1 and work.run[b + 1] > 0.0:
            slope = work.rise[b + 1] / work.run[b + 1]
            lotteries = hold_in_block(first, last, slope, work.target, work.density, room, lotteries)
        else:
            for j in range(first, last):
                room.release[j] = 0.0
                room.home[j] = -1
                room.proposal[j] = room.size[j] * work.density[j]
    return Sizes(k, blocks, lotteries)


@jit
def measure_places(size: FloatArray, n: int, density: FloatArray) -> None:
    """Fill in the density of places of these sizes, laid end to end from 0.

    The density ((x + q)**n - x**n) / q is the sum over i of (x + q)**i * x**(n-1-i): all terms are positive, while the
    difference of powers has no correct digit left once q is below an ulp of x.  The sum is built by doubling, from
    S(2m) = S(m) * ((x + q)**m + x**m) and S(m + 1) = S(m) * (x + q) + x**m.
    """
    top_bit = 1
    while 2 * top_bit <= n:
        top_bit *= 2
    low = np.empty(CHUNK)
    high = np.empty(CHUNK)
    low_m = np.empty(CHUNK)
    high_m = np.empty(CHUNK)
    base = 0.0
    for first in range(0, size.size, CHUNK):
        count = min(CHUNK, size.size - first)
        inside = 0.0
        for j in range(count):
            low[j] = low_m[j] = min(base + inside, 1.0)
            inside += size[first + j]
            high[j] = high_m[j] = min(base + inside, 1.0)
        base += inside
        chunk = density[first : first + count]
        chunk[:] = 1.0
        bit = top_bit >> 1
        while bit:
            for j in range(count):
                chunk[j] *= high_m[j] + low_m[j]
                low_m[j] *= low_m[j]
                high_m[j] *= high_m[j]
            if n & bit:
                for j in range(count):
                    chunk[j] = chunk[j] * high[j] + low_m[j]
                    low_m[j] *= low[j]
                    high_m[j] *= high[j]
            bit >>= 1


@jit
def hold_in_block(
    first: int, last: int, slope: float, target: FloatArray, density: FloatArray, room: Places, lotteries: int
) -> int:
    """Hold the lotteries of one block, and return the number of all lotteries so far.

    A token whose g = slope * p exceeds its measure is a *seeker*, one whose measure exceeds its g a *giver*.  Each run
    of neighbouring givers holds a lottery with as many seekers as its surplus satisfies, those first that have waited
    longest.  It aims at the g/q of its first giver as the pivot: seekers come earlier in the order, so
    density <= g/q <= pivot on their side, and pivot <= g/q <= density on the givers'.  A token that moves the share
    (g/q - density) / (pivot - density) of its place has g/q on average, and that share is at most 1.

    Rounding can leave a surplus that no token seeks, or a wish unmet.  The proposal is therefore computed from the
    shares as they are and the mean density that the lottery really has.
    """
    size, release, home = room.size, room.release, room.home
    first_lottery = lotteries
    seeker = first
    wanted = 0.0  # what the seeker still wants; 0: not looked at yet
    j = first
    while True:
        while j < last and slope * target[j] >= (1.0 - LEVEL) * size[j] * density[j]:
            release[j] = 0.0
            home[j] = -1
            j += 1
        if j == last:
            break
        giver = j
        pivot = slope * target[j] / size[j]
        surplus = 0.0
        held = 0.0
        worth = 0.0
        while j < last and slope * target[j] < (1.0 - LEVEL) * size[j] * density[j]:
            excess = size[j] * density[j] - slope * target[j]
            most = size[j] * (density[j] - pivot)
            release[j] = excess / most if excess < most else 1.0
            home[j] = lotteries
            surplus += excess
            stake = size[j] * release[j]
            held += stake
            worth += stake * density[j]
            j += 1
        oldest = giver
        newest = giver - 1
        head = 0.0
        stake = 0.0
        while surplus > 0.0 and seeker < giver:
            if wanted == 0.0:
                if home[seeker] < 0:
                    wanted = slope * target[seeker] - size[seeker] * density[seeker]
                if wanted <= 0.0:
                    wanted = 0.0
                    seeker += 1
                    continue
                home[seeker] = lotteries
            taken = min(wanted, surplus)
            most = size[seeker] * (pivot - density[seeker])
            share = min(taken / most if taken < most else 1.0, 1.0 - release[seeker])
            release[seeker] += share
            stake = size[seeker] * share
            held += stake
            worth += stake * density[seeker]
            if newest < oldest:
                oldest = seeker
                head = stake
            newest = seeker
            surplus -= taken
            wanted -= taken
            if wanted == 0.0:
                seeker += 1
        room.oldest[lotteries] = oldest
        room.newest[lotteries] = newest
        room.giver[lotteries] = giver
        room.past[lotteries] = j
        room.head[lotteries] = head
        room.tail[lotteries] = stake
        room.held[lotteries] = held
        room.pivot[lotteries] = worth / held if held > 0.0 else pivot
        lotteries += 1

    for j in range(first, last):
        h = home[j]
        if h < 0:
            room.proposal[j] = size[j] * density[j]
        else:
            stake = room.tail[h] if j == room.newest[h] else size[j] * release[j]
            room.proposal[j] = size[j] * (1.0 - release[j]) * density[j] + stake * room.pivot[h]
    for h in range(first_lottery, lotteries):
        oldest = room.oldest[h]
        if home[oldest] != h:
            room.proposal[oldest] += room.head[h] * room.pivot[h]
    return lotteries


@jit
def certify(n: int, work: Workspace, room: Places, sizes: Sizes) -> tuple[float, float]:
    """The acceptance of the proposal, and the upper bound P(some draft outside H*) + p(H*) on any rule's.

    H* are the blocks with slope above 1, which come first.  The bound holds for every set of tokens, so it proves the
    acceptance optimal without trust in how either was found.
    """
    over_drafted = 0
    for b in range(sizes.blocks):
        if work.rise[b + 1] > work.run[b + 1] * (1.0 + TIE_TOL):
            over_drafted = room.block[b + 1]
    acceptance = 0.0
    inside = 0.0
    outside = 0.0
    for first in range(0, sizes.tokens, CHUNK):
        accepted_here = 0.0
        inside_here = 0.0
        outside_here = 0.0
        for j in range(first, min(first + CHUNK, sizes.tokens)):
            accepted_here += min(work.target[j], room.proposal[j])
            if j < over_drafted:
                inside_here += work.target[j]
            else:
                outside_here += room.size[j]
        acceptance += accepted_here
        inside += inside_here
        outside += outside_here
    hit = -np.expm1(n * np.log1p(-outside)) if outside < 1.0 else 1.0
    return acceptance, hit + inside

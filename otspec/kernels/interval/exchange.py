"""The kernels of the `interval` solver: places on [0, 1], blocks of the least concave majorant, exchanges of mass.

`docs/interval.md` has the statement and the proof; in short:

* Sort the tokens by p/q, ascending.  Each owns a *place* on [0, 1], as long as its q, one after the other.  If every
  draft shows a uniform point of its own place, the points are i.i.d. uniform, and the largest of n falls into the place
  [x, x + q] with probability (x + q)**n - x**n, its *measure*: q times its *density*.
* The least concave majorant of the cumulative measures against p cuts the order into *blocks*; on each, g = slope * p
  is the law that the picked token should have.
* In a block some places are worth less than the g of their tokens, and higher ones more.  So tokens contribute part of
  their place to an *exchange*: each gets back as much as it contributed, drawn at random from all contributions.  What
  is drawn has the mean density of what was contributed, the *threshold*, which lies between the two sides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.jit import jit, jit_inlined, wide
from otspec.kernels.interval.places import Places, Sizes, Workspace
from otspec.kernels.interval.ratio_sort import sort_by_ratio
from otspec.kernels.majorant import concave_blocks
from otspec.laws import FloatArray
from otspec.tolerances import TIE_TOL

CHUNK = 64
"""Tokens summed up before they are added to the total: cumulative sums then err by V / CHUNK roundings, not V."""
LEVEL = 1e-15
"""A place worth at most this share more than the g of its token gives nothing away: the difference is rounding."""


@jit
def solve_and_certify(
    p: Any, q: Any, p_scale: float, q_scale: float, n: int, work: Workspace, places: Places
) -> tuple[Sizes, float, float]:
    """`solve_places`, then `certify`, on the arguments of the first.

    Returns
    -------
    sizes : Sizes
        How much of `places` was filled.
    acceptance, bound : float
        Of the proposal, and the upper bound on any rule's.
    """
    sizes = solve_places(p, q, p_scale, q_scale, n, work, places)
    acceptance, bound = certify(n, work, places, sizes)
    return sizes, acceptance, bound


@jit
def solve_places(p: Any, q: Any, p_scale: float, q_scale: float, n: int, work: Workspace, places: Places) -> Sizes:
    """Solve for the laws p * p_scale and q * q_scale; the answer lies in `places`.

    Parameters
    ----------
    p, q : ndarray, shape (V,), float32 or float64
        Weights >= 0 of target and draft law.
    p_scale, q_scale : float
        Factors that make laws of them.
    n : int
        Number of drafts.
    work : Workspace
        For V tokens or more; overwritten.
    places : Places
        Of `empty_places`, for V tokens or more; filled.

    Returns
    -------
    Sizes
        How much of `places` was filled.
    """
    k = sort_by_ratio(p, q, p_scale, q_scale, work.keys, places.order, work.target, places.size)
    measure_places(places.size[:k], n, work.density)
    blocks = concave_blocks(work.target[:k], places.size, work.density, places.block, work.rise, work.run)
    exchanges = wide(0)
    for b in range(blocks):
        first, last = wide(places.block[b]), wide(places.block[b + 1])
        if last - first > 1 and work.run[b + 1] > 0.0:
            slope = work.rise[b + 1] / work.run[b + 1]
            exchanges = exchange_in_block(first, last, slope, work.target, work.density, places, exchanges)
        else:
            for j in range(first, last):
                places.share[j] = 0.0
                places.exchange[j] = -1
                places.proposal[j] = places.size[j] * work.density[j]
    return Sizes(k, blocks, exchanges)


@jit
def measure_places(size: FloatArray, n: int, density: FloatArray) -> None:
    """Fill in the density of places of these sizes, laid end to end from 0.

    The density ((x + q)**n - x**n) / q is the sum over i of (x + q)**i * x**(n-1-i): all terms are positive, while the
    difference of powers has no correct digit left once q is below an ulp of x.  The sum is built by doubling, from
    S(2m) = S(m) * ((x + q)**m + x**m) and S(m + 1) = S(m) * (x + q) + x**m.

    Parameters
    ----------
    size : ndarray, shape (k,)
        Sizes of the places.
    n : int
        Number of drafts.
    density : ndarray, shape (k,) or longer
        Filled up to k.
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
def exchange_in_block(
    first: int, last: int, slope: float, target: FloatArray, density: FloatArray, places: Places, exchanges: int
) -> int:
    """Hold the exchanges of one block.

    A token whose g = slope * p exceeds its measure is a *recipient*, one whose measure exceeds its g a *donor*.  Each
    run of neighbouring donors holds an exchange with as many recipients as its surplus satisfies, those first that have
    waited longest.  It aims at the g/q of its first donor as the threshold: recipients come earlier in the order, so
    density <= g/q <= threshold on their side, and threshold <= g/q <= density on the donors'.  A token that moves the
    share (g/q - density) / (threshold - density) of its place has g/q on average, and that share is at most 1.

    Rounding can leave a surplus that no token lacks, or a token that still lacks something.  The proposal is therefore
    computed from the shares as they are and the mean density that the exchange really has.

    Parameters
    ----------
    first, last : int
        The block holds the ranks from `first` up to `last`.
    slope : float
        g/p in this block.
    target, density : ndarray, shape (V,)
        As in `Workspace`.
    places : Places
        Filled for these ranks, and for the exchanges of the block.
    exchanges : int
        Number of exchanges before this block.

    Returns
    -------
    int
        Number of exchanges so far.
    """
    size, share, exchange = places.size, places.share, places.exchange
    h = exchanges
    recipient, lacking = first, 0.0
    j = first
    while True:
        while j < last and slope * target[j] >= (1.0 - LEVEL) * size[j] * density[j]:
            share[j] = 0.0
            exchange[j] = -1
            j += 1
        if j == last:
            break
        j, surplus, worth = _collect(h, j, last, slope, target, density, places)
        recipient, lacking = _allocate(h, recipient, lacking, surplus, worth, slope, target, density, places)
        h += 1
    _propose(first, last, exchanges, h, density, places)
    return h


@jit_inlined
def _collect(
    h: int, j: int, last: int, slope: float, target: FloatArray, density: FloatArray, places: Places
) -> tuple[int, float, float]:
    """Open exchange h of `exchange_in_block` with the run of donors that begins at rank j.

    Returns
    -------
    end : int
        One rank past the last donor.
    surplus : float
        What the donors are worth beyond their g.
    worth : float
        Measure of what they contribute.
    """
    size, share = places.size, places.share
    places.first_donor[h] = j
    threshold = slope * target[j] / size[j]
    surplus, contributed, worth = 0.0, 0.0, 0.0
    while j < last and slope * target[j] < (1.0 - LEVEL) * size[j] * density[j]:
        excess = size[j] * density[j] - slope * target[j]
        most = size[j] * (density[j] - threshold)
        share[j] = excess / most if excess < most else 1.0
        places.exchange[j] = h
        surplus += excess
        contribution = size[j] * share[j]
        contributed += contribution
        worth += contribution * density[j]
        j += 1
    places.donors_end[h] = j
    places.contributed[h] = contributed
    places.threshold[h] = threshold
    return j, surplus, worth


@jit_inlined
def _allocate(
    h: int,
    recipient: int,
    lacking: float,
    surplus: float,
    worth: float,
    slope: float,
    target: FloatArray,
    density: FloatArray,
    places: Places,
) -> tuple[int, float]:
    """Allocate the surplus of exchange h to the recipients that have waited longest.

    Parameters
    ----------
    h : int
        The exchange, as `_collect` opened it.
    recipient, lacking : int, float
        The rank to go on from, and what it still lacks; 0 if it was not reached yet.
    surplus, worth : float
        What `_collect` returned.
    slope, target, density, places
        As in `exchange_in_block`.

    Returns
    -------
    recipient, lacking : int, float
        Where the next exchange goes on.
    """
    size, share, exchange = places.size, places.share, places.exchange
    first_donor, threshold, contributed = places.first_donor[h], places.threshold[h], places.contributed[h]
    first_recipient, last_recipient = first_donor, first_donor - 1
    first_contribution, contribution = 0.0, 0.0
    while surplus > 0.0 and recipient < first_donor:
        if lacking == 0.0:
            if exchange[recipient] < 0:
                lacking = slope * target[recipient] - size[recipient] * density[recipient]
            if lacking <= 0.0:
                lacking = 0.0
                recipient += 1
                continue
            exchange[recipient] = h
        amount = min(lacking, surplus)
        most = size[recipient] * (threshold - density[recipient])
        part = min(amount / most if amount < most else 1.0, 1.0 - share[recipient])
        share[recipient] += part
        contribution = size[recipient] * part
        contributed += contribution
        worth += contribution * density[recipient]
        if last_recipient < first_recipient:
            first_recipient = recipient
            first_contribution = contribution
        last_recipient = recipient
        surplus -= amount
        lacking -= amount
        if lacking == 0.0:
            recipient += 1
    places.first_recipient[h] = first_recipient
    places.last_recipient[h] = last_recipient
    places.first_contribution[h] = first_contribution
    places.last_contribution[h] = contribution
    places.contributed[h] = contributed
    places.threshold[h] = worth / contributed if contributed > 0.0 else threshold
    return recipient, lacking


@jit_inlined
def _propose(first: int, last: int, before: int, after: int, density: FloatArray, places: Places) -> None:
    """Fill in the proposal of a block: what each token keeps of its place, and what it draws in its exchanges.

    Parameters
    ----------
    first, last : int
        The block holds the ranks from `first` up to `last`.
    before, after : int
        It holds the exchanges from `before` up to `after`.
    density : ndarray, shape (V,)
        As in `Workspace`.
    places : Places
        Of the block all is filled but the proposal.
    """
    size, share, proposal = places.size, places.share, places.proposal
    for j in range(first, last):
        h = places.exchange[j]
        if h < 0:
            proposal[j] = size[j] * density[j]
        else:
            contribution = places.last_contribution[h] if j == places.last_recipient[h] else size[j] * share[j]
            proposal[j] = size[j] * (1.0 - share[j]) * density[j] + contribution * places.threshold[h]
    for h in range(before, after):
        recipient = places.first_recipient[h]
        if places.exchange[recipient] != h:
            proposal[recipient] += places.first_contribution[h] * places.threshold[h]


@jit
def certify(n: int, work: Workspace, places: Places, sizes: Sizes) -> tuple[float, float]:
    """The acceptance of the proposal, and the upper bound P(some draft outside H*) + p(H*) on any rule's.

    H* are the blocks with slope above 1, which come first.  The bound holds for every set of tokens, so it proves the
    acceptance optimal without trust in how either was found.

    Parameters
    ----------
    n : int
        Number of drafts.
    work, places, sizes : Workspace, Places, Sizes
        As `solve_places` filled them.

    Returns
    -------
    acceptance, bound : float
        Probabilities.
    """
    over_drafted = 0
    for b in range(sizes.blocks):
        if work.rise[b + 1] > work.run[b + 1] * (1.0 + TIE_TOL):
            over_drafted = places.block[b + 1]
    acceptance = 0.0
    inside = 0.0
    outside = 0.0
    for first in range(0, sizes.tokens, CHUNK):
        accepted_here = 0.0
        inside_here = 0.0
        outside_here = 0.0
        for j in range(first, min(first + CHUNK, sizes.tokens)):
            accepted_here += min(work.target[j], places.proposal[j])
            if j < over_drafted:
                inside_here += work.target[j]
            else:
                outside_here += places.size[j]
        acceptance += accepted_here
        inside += inside_here
        outside += outside_here
    hit = -np.expm1(n * np.log1p(-outside)) if outside < 1.0 else 1.0
    return acceptance, hit + inside

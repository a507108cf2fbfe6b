"""The memory of the `interval` solver: who owns which part of [0, 1], and arrays that are used again.

`otspec.kernels.interval.exchange` defines places and exchanges, and fills them.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from otspec.jit import jit
from otspec.kernels.interval.ratio_sort import KeyArray
from otspec.laws import FloatArray, IndexArray


class Places(NamedTuple):
    """Who owns which part of [0, 1], for the k tokens that can be drafted; *ranks* count them in ascending p/q.

    Exchange h has as members the *recipients* among the ranks first_recipient[h] to last_recipient[h], those whose
    first exchange is h and the two ends, and the *donors*, all ranks from first_donor[h] up to donors_end[h].  A
    recipient may belong to several exchanges; it is then the last one of one and the first one of the next.
    """

    order: IndexArray
    """Shape (k,): the token of each rank."""
    size: FloatArray
    """Shape (k,): q, the size of the place."""
    share: FloatArray
    """Shape (k,): the share of its place that the token contributes to exchanges, in [0, 1]."""
    exchange: IndexArray
    """Shape (k,): the first exchange of the token, or -1."""
    proposal: FloatArray
    """Shape (k,): g, the law of the pick, computed from the exchanges as they are."""
    block: IndexArray
    """Shape (blocks + 1,): block b holds the ranks block[b] to block[b + 1]."""
    first_recipient: IndexArray
    """Shape (exchanges,), like all that follow: the first recipient; first_donor, if there is none."""
    last_recipient: IndexArray
    """Shape (exchanges,): the last recipient; first_donor - 1, if there is none."""
    first_donor: IndexArray
    """Shape (exchanges,)."""
    donors_end: IndexArray
    """Shape (exchanges,): one rank past the last donor."""
    first_contribution: FloatArray
    """Shape (exchanges,): what the first recipient contributes.  Those up to the last one contribute share * size."""
    last_contribution: FloatArray
    """Shape (exchanges,): what the last recipient contributes; first_contribution, if they are the same."""
    contributed: FloatArray
    """Shape (exchanges,): size of all contributions."""
    threshold: FloatArray
    """Shape (exchanges,): their mean density."""


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
    exchanges: int


def empty_places(vocab: int) -> Places:
    """Arrays for the places of up to `vocab` tokens.  What stays unused costs address space only.

    They are parts of one allocation: where a plan of a large vocabulary is dropped before the next, the C library then
    has that use the same pages again, while one of 14 arrays is small enough for it to give them back every time.
    """
    half = vocab // 2 + 1  # every exchange has a donor, and between the donors of two is a token that is none
    row, pair = -(-(vocab + 1) // 8) * 8, -(-half // 8) * 8  # whole cache lines
    memory = np.empty(3 * row + 4 * pair + (3 * row + 4 * pair) // 2)
    numbers = memory[3 * row + 4 * pair :].view(np.int32)
    return Places(
        numbers[:vocab],
        memory[:vocab],
        memory[row : row + vocab],
        numbers[row : row + vocab],
        memory[2 * row : 2 * row + vocab],
        numbers[2 * row : 2 * row + vocab + 1],
        numbers[3 * row : 3 * row + half],
        numbers[3 * row + pair : 3 * row + pair + half],
        numbers[3 * row + 2 * pair : 3 * row + 2 * pair + half],
        numbers[3 * row + 3 * pair : 3 * row + 3 * pair + half],
        memory[3 * row : 3 * row + half],
        memory[3 * row + pair : 3 * row + pair + half],
        memory[3 * row + 2 * pair : 3 * row + 2 * pair + half],
        memory[3 * row + 3 * pair : 3 * row + 3 * pair + half],
    )


def workspace(vocab: int) -> Workspace:
    """Working memory for up to `vocab` tokens."""
    target, density = np.empty(vocab), np.empty(vocab)
    rise, run = np.empty(vocab + 1), np.empty(vocab + 1)
    return Workspace(np.empty((2, vocab), dtype=np.uint64), target, density, rise, run)


class Memory(threading.local):
    """Working memory and places of each thread, for as many tokens as the largest vocabulary that it has met."""

    vocab = -1
    work: Workspace
    places: Places

    def of(self, vocab: int) -> Memory:
        """The same, large enough for a vocabulary."""
        if self.vocab < vocab:
            self.work, self.places, self.vocab = workspace(vocab), empty_places(vocab), vocab
        return self


memory = Memory()


def trim(places: Places, sizes: Sizes) -> Places:
    """The part of the arrays that was filled.

    Parameters
    ----------
    places : Places
        As `otspec.kernels.interval.exchange.solve_places` filled them.
    sizes : Sizes
        What it returned.
    """
    k, blocks, exchanges = sizes.tokens, sizes.blocks, sizes.exchanges
    return Places(
        places.order[:k],
        places.size[:k],
        places.share[:k],
        places.exchange[:k],
        places.proposal[:k],
        places.block[: blocks + 1],
        places.first_recipient[:exchanges],
        places.last_recipient[:exchanges],
        places.first_donor[:exchanges],
        places.donors_end[:exchanges],
        places.first_contribution[:exchanges],
        places.last_contribution[:exchanges],
        places.contributed[:exchanges],
        places.threshold[:exchanges],
    )


trim_compiled, empty_compiled = jit(trim), jit(empty_places)

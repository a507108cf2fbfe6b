"""Maximum flow on the bipartite network of tokens and draft sets, in floating point.

The relaxed transport program is a maximum flow: source -> token with capacity p, token -> set without limit,
set -> sink with the set's probability [thomas2025global, section 5.2].  Dinic's algorithm [dinic1970algorithm] runs
here on arrays that exist already, the cells of `otspec.schemes.DraftSets`, so no graph is built.

Two steps alternate: `_levels` finds distances from the source, and `_blocking_flow` fills the network along them, where
`_augment` sends along one path what it can carry.  `otspec.kernels.pair_cut` has the same steps on a dense network
among the tokens alone, and explains why they are not these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from otspec.jit import jit, jit_inlined
from otspec.laws import BoolArray, FloatArray, IntArray

UNREACHED = -1
"""Level of a node that the search from the source did not come to."""
DEAD_END = -2
"""Level of a node that was left without a way on in this phase."""


class Network(NamedTuple):
    """Tokens on the left, draft sets on the right, one edge per cell."""

    supply: FloatArray
    """Shape (k,): capacity from the source to each token."""
    demand: FloatArray
    """Shape (m,): capacity from each set to the sink."""
    indptr: IntArray
    """Shape (m + 1,): the edges into set s are indptr[s] to indptr[s + 1]."""
    left: IntArray
    """Shape (cells,): the token each edge leaves, 0 <= left < k."""

    @property
    def right(self) -> IntArray:
        """Shape (cells,): the set that each edge enters."""
        return np.repeat(np.arange(self.demand.size), np.diff(self.indptr))

    @property
    def terminals(self) -> tuple[int, int]:
        """Node numbers of source and sink where a library wants one numbering: tokens, sets, then these."""
        source = self.supply.size + self.demand.size
        return source, source + 1


class Edges(NamedTuple):
    """The edges of a network as both ends see them."""

    left: IntArray
    """Shape (cells,): the token that each edge leaves."""
    right: IntArray
    """Shape (cells,): the set that each edge enters."""
    of_token: IntArray
    """Shape (cells,): the edges by their tokens; those of token i are of_token[first[i]] to of_token[first[i + 1]]."""
    first: IntArray
    """Shape (k + 1,)."""
    indptr: IntArray
    """Shape (m + 1,): the edges of set s are the numbers indptr[s] to indptr[s + 1]."""


class Flow(NamedTuple):
    """A flow, and what it leaves."""

    sent: FloatArray
    """Shape (cells,): the flow on each edge."""
    surplus: FloatArray
    """Shape (k,): what is left of each token's supply."""
    missing: FloatArray
    """Shape (m,): what is left of each set's demand."""


class Search(NamedTuple):
    """How far a phase has come: distances from the source, and the edges that are still to be examined."""

    token_level: IntArray
    """Shape (k,): `UNREACHED`, `DEAD_END`, or an even number."""
    set_level: IntArray
    """Shape (m,): `UNREACHED`, `DEAD_END`, or an odd number."""
    token_next: IntArray
    """Shape (k,): where in `Edges.of_token` the next edge of each token stands."""
    set_next: IntArray
    """Shape (m,): the next edge of each set."""
    tokens: IntArray
    """Shape (k,): those reached, in the order in which they were."""
    sets: IntArray
    """Shape (m,): likewise."""
    path: IntArray
    """Shape (2 min(k, m) + 2,): the edges of a path from a token to a set, forwards and backwards in turn."""


def max_flow(network: Network) -> FloatArray:
    """The largest flow that the capacities allow.

    Parameters
    ----------
    network : Network
        Of k tokens, m draft sets and their cells; it is left as it is.

    Returns
    -------
    ndarray, shape (cells,)
        Flow on each edge, a probability.
    """
    flow, _ = _dinic(network)
    return flow


def min_cut(network: Network) -> tuple[FloatArray, BoolArray]:
    """A maximum flow, as of `max_flow`, and the tokens on the source side of a minimum cut.

    Their set A minimises f(A) + 1 - p(A) over the tokens of the network, f being the hit function.

    Returns
    -------
    flow : ndarray, shape (cells,)
        Flow on each edge, a probability.
    source_side : ndarray of bool, shape (k,)
        Whether each token belongs to A.
    """
    flow, level = _dinic(network)
    return flow, level >= 0


@jit
def _dinic(network: Network) -> tuple[FloatArray, IntArray]:
    """Dinic's blocking flows.

    Every augmentation subtracts a residual capacity from itself, which is exactly 0 in floating point, so each phase
    saturates real edges and the method ends as it does over the reals; no tolerance is involved.

    Parameters
    ----------
    network : Network
        Of k tokens, m draft sets and their cells.

    Returns
    -------
    flow : ndarray, shape (cells,)
        Flow on each edge.
    level : ndarray of int, shape (k,)
        Residual distance of each token from the source at the end, `UNREACHED` where the minimum cut separates them.
    """
    k, m = network.supply.size, network.demand.size
    edges = _edges(network)
    flow = Flow(np.zeros(network.left.size), network.supply.copy(), network.demand.copy())
    search = Search(
        np.empty(k, dtype=np.int64),
        np.empty(m, dtype=np.int64),
        np.empty(k, dtype=np.int64),
        np.empty(m, dtype=np.int64),
        np.empty(k, dtype=np.int64),
        np.empty(m, dtype=np.int64),
        np.empty(2 * min(k, m) + 2, dtype=np.int64),
    )
    while True:
        nearest = _levels(edges, flow, search)
        if nearest == UNREACHED:
            return flow.sent, search.token_level
        _blocking_flow(nearest, edges, flow, search)


@jit
def _edges(network: Network) -> Edges:
    """Sort the edges of a network by their tokens, in time O(k + m + cells).

    Parameters
    ----------
    network : Network
        Of k tokens, m draft sets and their cells.
    """
    k, cells = network.supply.size, network.left.size
    first = np.zeros(k + 1, dtype=np.int64)
    for edge in range(cells):
        first[network.left[edge] + 1] += 1
    for token in range(k):
        first[token + 1] += first[token]
    of_token = np.empty(cells, dtype=np.int64)
    right = np.empty(cells, dtype=np.int64)
    free = first[:-1].copy()
    for s in range(network.demand.size):
        for edge in range(network.indptr[s], network.indptr[s + 1]):
            right[edge] = s
            token = network.left[edge]
            of_token[free[token]] = edge
            free[token] += 1
    return Edges(network.left, right, of_token, first, network.indptr)


@jit
def _levels(edges: Edges, flow: Flow, search: Search) -> int:
    """Fill in the distances from the source, breadth first, as far as the nearest sets that miss something.

    Parameters
    ----------
    edges, flow, search : Edges, Flow, Search
        Of k tokens and m draft sets; the levels are filled in.

    Returns
    -------
    int
        The level of these sets; `UNREACHED` if there are none, and the flow is the largest.
    """
    left, right, of_token, first, indptr = edges
    sent, surplus, missing = flow
    token_level, set_level, _, _, tokens, sets, _ = search
    token_level[:] = UNREACHED
    set_level[:] = UNREACHED
    token_count, set_count = 0, 0  # reached so far
    for token in range(surplus.size):
        if surplus[token] > 0:
            token_level[token] = 0
            tokens[token_count] = token
            token_count += 1
    level, first_token, first_set = 0, 0, 0  # the layer to go on from
    while first_token < token_count:
        level += 1
        nearest = False
        for at in range(first_token, token_count):
            token = tokens[at]
            for position in range(first[token], first[token + 1]):
                s = right[of_token[position]]
                if set_level[s] == UNREACHED:
                    set_level[s] = level
                    sets[set_count] = s
                    set_count += 1
                    nearest |= missing[s] > 0
        if nearest:
            return level
        level += 1
        first_token = token_count
        for at in range(first_set, set_count):
            s = sets[at]
            for edge in range(indptr[s], indptr[s + 1]):
                token = left[edge]
                if sent[edge] > 0 and token_level[token] == UNREACHED:
                    token_level[token] = level
                    tokens[token_count] = token
                    token_count += 1
        first_set = set_count
    return UNREACHED


@jit
def _blocking_flow(nearest: int, edges: Edges, flow: Flow, search: Search) -> None:
    """Send along rising levels, up to the nearest sets, until no token has a way on: depth first, without recursion.

    A node that turns out to be a dead end is marked as one and left for good.

    Parameters
    ----------
    nearest : int
        What `_levels` returned.
    edges, flow, search : Edges, Flow, Search
        Of k tokens and m draft sets; the flow and the search are updated.
    """
    left, right, of_token, first, indptr = edges
    sent, surplus, missing = flow
    token_level, set_level, token_next, set_next, _, _, path = search
    token_next[:] = first[:-1]
    set_next[:] = indptr[:-1]
    for root in range(surplus.size):
        length, token = 0, root
        while surplus[root] > 0 and token_level[root] == 0:
            # At a token: on by an edge into a set of the next level, or back to the set before.
            while token_next[token] < first[token + 1]:
                edge = of_token[token_next[token]]
                if set_level[right[edge]] == token_level[token] + 1:
                    break
                token_next[token] += 1
            if token_next[token] < first[token + 1]:
                path[length] = edge
                length += 1
                s = right[edge]
                if set_level[s] == nearest and missing[s] > 0:
                    _augment(path[:length], root, s, flow)
                    length, token = 0, root
                    continue
            else:
                token_level[token] = DEAD_END
                if length == 0:
                    break
                length -= 1
                s = right[path[length]]
                set_next[s] += 1
            # At a set: on by an edge whose flow can be taken back from a token of the next level, or back.
            end = indptr[s + 1] if set_level[s] < nearest else set_next[s]
            while set_next[s] < end:
                edge = set_next[s]
                if sent[edge] > 0 and token_level[left[edge]] == set_level[s] + 1:
                    break
                set_next[s] += 1
            if set_next[s] < end:
                path[length] = edge
                length += 1
                token = left[edge]
            else:
                set_level[s] = DEAD_END
                length -= 1
                token = left[path[length]]
                token_next[token] += 1


@jit_inlined
def _augment(path: IntArray, root: int, last: int, flow: Flow) -> None:
    """Send along a path as much as it can carry.

    Parameters
    ----------
    path : ndarray of int, shape (length,)
        Its edges from the first token to the last set; every other one is gone through backwards.
    root, last : int
        That token and that set.
    flow : Flow
        Of k tokens, m draft sets and their cells; updated.
    """
    sent, surplus, missing = flow
    amount = min(surplus[root], missing[last])
    for step in range(1, path.size, 2):
        amount = min(amount, sent[path[step]])
    surplus[root] -= amount
    missing[last] -= amount
    for step in range(path.size):
        sent[path[step]] += amount if step % 2 == 0 else -amount

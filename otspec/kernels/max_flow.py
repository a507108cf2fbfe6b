"""Maximum flow on the bipartite network of tokens and draft sets, in floating point.

The relaxed transport program is a maximum flow: source -> token with capacity p, token -> set without limit,
set -> sink with the set's probability [thomas2025global, section 5.2].  Dinic's algorithm runs here on arrays that
exist already, the cells of `otspec.schemes.DraftSets`, so no graph is built.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from otspec.jit import jit
from otspec.laws import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Network:
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


def max_flow(network: Network) -> FloatArray:
    """Flow on each edge, shape (cells,), whose total is the largest that the capacities allow."""
    flow, _ = _dinic(network.supply, network.demand, network.indptr, network.left)
    return flow


def min_cut(network: Network) -> tuple[FloatArray, BoolArray]:
    """A maximum flow, shape (cells,), and the tokens on the source side of a minimum cut, shape (k,).

    Their set A minimises f(A) + 1 - p(A) over the tokens of the network, f being the hit function.
    """
    flow, level = _dinic(network.supply, network.demand, network.indptr, network.left)
    return flow, level >= 0


@jit
def _dinic(supply: FloatArray, demand: FloatArray, indptr: IntArray, left: IntArray) -> tuple[FloatArray, IntArray]:
    """Dinic's blocking flows, depth first without recursion.

    Every augmentation subtracts a residual capacity from itself, which is exactly 0 in floating point, so each phase
    saturates real edges and the method ends as it does over the reals; no tolerance is involved.

    Returns
    -------
    flow : ndarray, shape (cells,)
    level : ndarray, shape (k,)
        Residual distance of each token from the source at the end, -1 where the minimum cut separates them.
    """
    k = supply.size
    m = demand.size
    start = np.zeros(k + 1, dtype=np.int64)  # edges by token: by_token[start[i]:start[i + 1]]
    for edge in range(left.size):
        start[left[edge] + 1] += 1
    for i in range(k):
        start[i + 1] += start[i]
    by_token = np.empty(left.size, dtype=np.int64)
    right = np.empty(left.size, dtype=np.int64)
    fill = start[:-1].copy()
    for s in range(m):
        for edge in range(indptr[s], indptr[s + 1]):
            right[edge] = s
            by_token[fill[left[edge]]] = edge
            fill[left[edge]] += 1

    flow = np.zeros(left.size)
    unsent = supply.copy()
    unmet = demand.copy()
    token_level = np.empty(k, dtype=np.int64)
    set_level = np.empty(m, dtype=np.int64)
    token_next = np.empty(k, dtype=np.int64)
    set_next = np.empty(m, dtype=np.int64)
    queue = np.empty(k + m, dtype=np.int64)
    path = np.empty(2 * min(k, m) + 2, dtype=np.int64)

    while True:
        # Breadth first: distances from the source, as far as the nearest set with room.
        token_level[:] = -1
        set_level[:] = -1
        head = 0
        tail = 0
        nearest = -1
        for i in range(k):
            if unsent[i] > 0:
                token_level[i] = 0
                queue[tail] = i
                tail += 1
        while head < tail:
            node = queue[head]
            head += 1
            if node < k:
                if nearest >= 0 and token_level[node] >= nearest:
                    break
                for at in range(start[node], start[node + 1]):
                    s = right[by_token[at]]
                    if set_level[s] < 0:
                        set_level[s] = token_level[node] + 1
                        queue[tail] = k + s
                        tail += 1
                        if unmet[s] > 0 and nearest < 0:
                            nearest = set_level[s]
            elif nearest < 0:
                s = node - k
                for edge in range(indptr[s], indptr[s + 1]):
                    i = left[edge]
                    if flow[edge] > 0 and token_level[i] < 0:
                        token_level[i] = set_level[s] + 1
                        queue[tail] = i
                        tail += 1
        if nearest < 0:
            return flow, token_level

        # Depth first: a blocking flow along increasing levels. A node left without a way on gets level -2.
        token_next[:] = start[:-1]
        set_next[:] = indptr[:-1]
        for root in range(k):
            while unsent[root] > 0 and token_level[root] == 0:
                length = 0
                node = root
                at_token = True
                while True:
                    advanced = False
                    if at_token:
                        while token_next[node] < start[node + 1]:
                            edge = by_token[token_next[node]]
                            if set_level[right[edge]] == token_level[node] + 1:
                                path[length] = edge
                                length += 1
                                node = right[edge]
                                at_token = False
                                advanced = True
                                break
                            token_next[node] += 1
                        if not advanced:
                            token_level[node] = -2
                            if length == 0:
                                break
                            length -= 1
                            node = right[path[length]]
                            at_token = False
                            set_next[node] += 1
                    elif set_level[node] == nearest and unmet[node] > 0:
                        break
                    else:
                        if set_level[node] < nearest:
                            while set_next[node] < indptr[node + 1]:
                                edge = set_next[node]
                                if flow[edge] > 0 and token_level[left[edge]] == set_level[node] + 1:
                                    path[length] = edge
                                    length += 1
                                    node = left[edge]
                                    at_token = True
                                    advanced = True
                                    break
                                set_next[node] += 1
                        if not advanced:
                            set_level[node] = -2
                            length -= 1
                            node = left[path[length]]
                            at_token = True
                            token_next[node] += 1
                if at_token:
                    break  # the root itself has no way on in this phase
                amount = min(unsent[root], unmet[node])
                for step in range(1, length, 2):
                    amount = min(amount, flow[path[step]])
                unsent[root] -= amount
                unmet[node] -= amount
                for step in range(length):
                    flow[path[step]] += amount if step % 2 == 0 else -amount

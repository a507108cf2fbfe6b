"""Random networks for the flow tests, and what a flow has to satisfy on them."""

import itertools

import numpy as np

from otspec.kernels.max_flow import Network
from tests.oracles import Floats


def network(supply: list[float], demand: list[float], edges: list[list[int]]) -> Network:
    """A network written out: `edges[s]` are the tokens that set s can take from."""
    indptr = np.concatenate(([0], np.cumsum([len(tokens) for tokens in edges]))).astype(np.int64)
    left = np.array([token for tokens in edges for token in tokens], dtype=np.int64)
    return Network(np.array(supply, dtype=np.float64), np.array(demand, dtype=np.float64), indptr, left)


def random_network(seed: int, integral: bool) -> Network:
    """Up to 12 tokens and 12 sets; a quarter of the capacities are 0, some tokens and sets have no edge."""
    rng = np.random.default_rng(seed)
    k, m = rng.integers(1, 13, 2)
    density = rng.choice([0.1, 0.3, 0.8])
    capacities = rng.integers(0, 20, k + m) if integral else rng.random(k + m) ** 4
    capacities = capacities * (rng.random(k + m) < 0.75)
    edges = [np.flatnonzero(rng.random(k) < density).tolist() for _ in range(m)]
    return network(capacities[:k].tolist(), capacities[k:].tolist(), edges)


def ring(k: int) -> Network:
    """Token i can serve sets i and i + 1 (mod k >= 2), which is where long augmenting paths come from."""
    rng = np.random.default_rng(k)
    return network(rng.random(k).tolist(), rng.random(k).tolist(), [[s, (s - 1) % k] for s in range(k)])


def hostile_network(seed: int) -> Network:
    """Up to 30 tokens and sets with capacities that tie, vanish, underflow, or differ by 300 orders of magnitude."""
    rng = np.random.default_rng(seed)
    k, m = rng.integers(1, 31, 2)
    density = rng.choice([0.03, 0.1, 0.3, 0.9])
    edges = [np.flatnonzero(rng.random(k) < density).tolist() for _ in range(m)]
    supply, demand = (hostile_capacities(rng, size, seed % 5) for size in (k, m))
    return network(supply.tolist(), demand.tolist(), edges)


def hostile_capacities(rng: np.random.Generator, size: int, kind: int) -> Floats:
    """Some of a kind from 0 to 4: small integers, gaps, many magnitudes with underflow, the least floats, all equal."""
    tiny = rng.random(size) < 0.5
    return {
        0: rng.integers(0, 4, size).astype(np.float64),
        1: rng.random(size) * (rng.random(size) < 0.6),
        2: np.where(tiny, 1e-300, rng.random(size)) * 10.0 ** rng.integers(-20, 3, size),
        3: np.where(tiny, 5e-324 * rng.integers(0, 9, size), rng.random(size) ** 40),
        4: np.full(size, 1 / size),
    }[kind]


def flow_by_recursion(network: Network) -> Floats:
    """Dinic's algorithm in recursive Python, in the order of `max_flow`: the same flow to the last bit.

    Recursion says in a few lines what the kernel does with two positions, a path and marks.
    """
    left, right, indptr = network.left.tolist(), network.right.tolist(), network.indptr.tolist()
    of_token = [[edge for edge, owner in enumerate(left) if owner == token] for token in range(network.supply.size)]
    of_set = [list(range(start, end)) for start, end in itertools.pairwise(indptr)]
    sent, surplus, missing = [0.0] * len(left), network.supply.tolist(), network.demand.tolist()

    def find(token: int) -> list[int] | None:
        while waiting[token]:
            edge = waiting[token][0]
            s = right[edge]
            if set_level.get(s) == token_level[token] + 1 and (rest := go_on(s)) is not None:
                return [edge, *rest]
            waiting[token].pop(0)
        return None

    def go_on(s: int) -> list[int] | None:
        if set_level[s] == nearest and missing[s] > 0:
            return []
        while set_level[s] < nearest and returning[s]:
            edge = returning[s][0]
            token = left[edge]
            if sent[edge] > 0 and token_level.get(token) == set_level[s] + 1 and (rest := find(token)) is not None:
                return [edge, *rest]
            returning[s].pop(0)
        return None

    while True:
        token_level = {token: 0 for token, amount in enumerate(surplus) if amount > 0}
        set_level: dict[int, int] = {}
        level, layer = 0, list(token_level)
        while True:
            level += 1
            met = dict.fromkeys(right[edge] for token in layer for edge in of_token[token])
            fresh = [s for s in met if s not in set_level]
            set_level |= dict.fromkeys(fresh, level)
            if not fresh:
                return np.array(sent)
            if any(missing[s] > 0 for s in fresh):
                break
            level += 1
            layer = list(dict.fromkeys(left[edge] for s in fresh for edge in of_set[s] if sent[edge] > 0))
            layer = [token for token in layer if token not in token_level]
            token_level |= dict.fromkeys(layer, level)
        nearest = level
        waiting, returning = [list(edges) for edges in of_token], [list(edges) for edges in of_set]
        for root in [token for token, distance in token_level.items() if distance == 0]:
            while surplus[root] > 0 and (path := find(root)) is not None:
                amount = min(surplus[root], missing[right[path[-1]]], *(sent[edge] for edge in path[1::2]))
                surplus[root] -= amount
                missing[right[path[-1]]] -= amount
                for step, edge in enumerate(path):
                    sent[edge] += amount if step % 2 == 0 else -amount


def assert_feasible(network: Network, flow: Floats, atol: float) -> None:
    """No edge carries a negative flow, no token and no set more than its capacity, up to `atol`."""
    assert flow.shape == network.left.shape
    assert (flow >= -atol).all()
    sent = np.bincount(network.left, weights=flow, minlength=network.supply.size)
    met = np.bincount(network.right, weights=flow, minlength=network.demand.size)
    assert (sent <= network.supply + atol).all()
    assert (met <= network.demand + atol).all()


IDLE = {
    "empty": network([], [], []),
    "no-supply": network([0.0], [1.0], [[0]]),
    "no-demand": network([1.0], [0.0], [[0]]),
    "no-edge": network([1.0, 1.0], [1.0], [[]]),
}
"""Networks through which nothing can flow."""

"""Random networks for the flow tests, and what a flow has to satisfy on them."""

import numpy as np
from hypothesis import strategies as st

from otspec.kernels.max_flow import Network
from tests.oracles import Floats
from tests.strategies import amounts


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


@st.composite
def hostile_networks(draw: st.DrawFn) -> Network:
    """Up to 12 tokens and sets with capacities that tie, vanish, underflow, or differ by 300 orders of magnitude."""
    k, m = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    edges = draw(st.lists(st.lists(st.integers(0, k - 1), unique=True), min_size=m, max_size=m))
    return network(draw(amounts(k)).tolist(), draw(amounts(m)).tolist(), [sorted(tokens) for tokens in edges])


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

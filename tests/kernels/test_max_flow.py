"""Maximum flows and least cuts, by our kernel and by the engines of others."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from otspec.certificate import transport_network
from otspec.kernels import max_flow as module
from otspec.kernels.max_flow import Network, max_flow, min_cut
from otspec.solvers.max_flow.engines import ENGINES
from tests.compiled import run_in_python
from tests.each import each
from tests.instances import sample_of_each
from tests.oracles import Floats
from tests.strategies import amounts, some


def network(supply: list[float], demand: list[float], edges: list[list[int]]) -> Network:
    """A network written out: `edges[s]` are the tokens that set s can take from."""
    indptr = np.concatenate(([0], np.cumsum([len(tokens) for tokens in edges]))).astype(np.int64)
    left = np.array([token for tokens in edges for token in tokens], dtype=np.int64)
    return Network(np.array(supply, dtype=np.float64), np.array(demand, dtype=np.float64), indptr, left)


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


def cut_value(network: Network, source_side: np.ndarray[Any, np.dtype[np.bool_]]) -> float:
    """Capacity of the cut: source edges of the other tokens, and sink edges of the sets that this side touches."""
    touched = np.zeros(network.demand.size, dtype=bool)
    touched[network.right[source_side[network.left]]] = True
    return float(network.supply[~source_side].sum() + network.demand[touched].sum())


RINGS = {f"ring-{k}": ring(k) for k in (2, 3, 10, 300)}


@each(network=RINGS | IDLE)
def test_flow_and_cut_are_optimal(network: Network) -> None:
    check_flow_and_cut(network)


@some
@given(network=hostile_networks())
def test_flow_and_cut_are_optimal_whatever_the_capacities(network: Network) -> None:
    check_flow_and_cut(network)


def check_flow_and_cut(network: Network) -> None:
    """What leaves the source side is full, and what enters it carries nothing: both are optimal only together."""
    before = network.supply.copy(), network.demand.copy()
    flow, source_side = min_cut(network)
    large = max(1.0, network.supply.max(initial=0.0))
    assert_array_equal(max_flow(network), flow)
    assert_array_equal(np.concatenate(before), np.concatenate((network.supply, network.demand)))  # left alone
    assert_feasible(network, flow, atol=1e-13 * large)
    assert flow.sum() == pytest.approx(cut_value(network, source_side), abs=1e-12 * large)
    open_sets = np.isin(np.arange(network.demand.size), network.right[source_side[network.left]])
    assert not flow[~source_side[network.left] & open_sets[network.right]].any()


def test_longest_augmenting_path_stays_within_the_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    # Tokens 0 .. k-2 take the set of their number first; token k-1 wants set 0, so that all of them have to move on by
    # one: a path through every node.  Compiled code checks no index, the same code in plain Python does.
    k = 40
    chain = network([1.0] * k, [1.0] * k, [[0, k - 1]] + [[s - 1, s] for s in range(1, k - 1)] + [[k - 2]])
    with monkeypatch.context() as patched:
        run_in_python(patched, module)
        flow = max_flow(chain)
    assert flow.sum() == k
    assert_array_equal(max_flow(chain), flow)


FOR_ENGINES = (
    RINGS
    | IDLE
    | {
        instance.name: transport_network(instance.problem, instance.problem.scheme.draft_sets())
        for instance in sample_of_each(4)
    }
)
# The only maximum flow: token 0 must leave set 0 to token 1.  Edges: (0, set 0), (1, set 0), (0, set 1).
FOR_ENGINES["one-way"] = network([0.5, 0.25], [0.25, 0.5], [[0, 1], [0]])


@each(network=FOR_ENGINES)
def test_engines_agree_with_ours(engine: str, network: Network) -> None:
    # tests/kernels/test_max_flow.py proves ours by its cuts.  Capacities are up to 20, so 1e-12 is about 300 ulp.
    flow = ENGINES[engine](network)
    assert_feasible(network, flow, atol=1e-12)
    ours = max_flow(network)
    assert flow.sum() == pytest.approx(ours.sum(), abs=1e-12)
    if network is FOR_ENGINES["one-way"]:  # comes back edge by edge
        np.testing.assert_allclose((flow, ours), [[0.0, 0.25, 0.5]] * 2, atol=1e-15)

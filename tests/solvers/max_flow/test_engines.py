import numpy as np
import pytest

from otspec.certificate import transport_network
from otspec.kernels.max_flow import Network, max_flow
from otspec.solvers.max_flow.engines import ENGINES
from tests.each import each
from tests.instances import Instance, sample_of_each
from tests.networks import IDLE, assert_feasible, network, random_network, ring

NETWORKS = {f"random-{seed}": random_network(seed, integral=False) for seed in range(40)} | {
    f"integral-{seed}": random_network(seed, integral=True) for seed in range(40)
}
NETWORKS |= {f"ring-{k}": ring(k) for k in (2, 3, 10)}


@each(network=NETWORKS)
def test_engines_agree_with_ours(engine: str, network: Network) -> None:
    # tests/kernels/test_max_flow.py proves ours by its cuts.  Capacities are up to 20, so 1e-12 is about 300 ulp.
    flow = ENGINES[engine](network)
    assert_feasible(network, flow, atol=1e-12)
    assert flow.sum() == pytest.approx(max_flow(network).sum(), abs=1e-12)


@each(instance=sample_of_each(4))
def test_engines_agree_on_problems(engine: str, instance: Instance) -> None:
    network = transport_network(instance.problem, instance.problem.scheme.draft_sets())
    flow = ENGINES[engine](network)
    assert_feasible(network, flow, atol=1e-13)
    assert flow.sum() == pytest.approx(max_flow(network).sum(), abs=1e-13)


@each(idle=IDLE)
def test_nothing_flows(engine: str, idle: Network) -> None:
    flow = ENGINES[engine](idle)
    assert flow.shape == idle.left.shape
    assert not flow.any()


def test_flow_comes_back_edge_by_edge(engine: str) -> None:
    # The only maximum flow: token 0 must leave set 0 to token 1.  Edges: (0, set 0), (1, set 0), (0, set 1).
    flow = ENGINES[engine](network([0.5, 0.25], [0.25, 0.5], [[0, 1], [0]]))
    np.testing.assert_allclose(flow, [0.0, 0.25, 0.5], atol=1e-15)

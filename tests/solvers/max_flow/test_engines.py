import numpy as np
import pytest

from otspec.certificate import transport_network
from otspec.kernels.max_flow import Network, max_flow
from otspec.solvers.max_flow.engines import ENGINES
from tests.each import each
from tests.instances import sample_of_each
from tests.networks import IDLE, assert_feasible, network, random_network, ring

NETWORKS = {f"random-{seed}": random_network(seed, integral=False) for seed in range(40)} | {
    f"integral-{seed}": random_network(seed, integral=True) for seed in range(40)
}
NETWORKS |= {f"ring-{k}": ring(k) for k in (2, 3, 10)} | IDLE
NETWORKS |= {
    instance.name: transport_network(instance.problem, instance.problem.scheme.draft_sets())
    for instance in sample_of_each(4)
}
# The only maximum flow: token 0 must leave set 0 to token 1.  Edges: (0, set 0), (1, set 0), (0, set 1).
NETWORKS["one-way"] = network([0.5, 0.25], [0.25, 0.5], [[0, 1], [0]])


@each(network=NETWORKS)
def test_engines_agree_with_ours(engine: str, network: Network) -> None:
    # tests/kernels/test_max_flow.py proves ours by its cuts.  Capacities are up to 20, so 1e-12 is about 300 ulp.
    flow = ENGINES[engine](network)
    assert_feasible(network, flow, atol=1e-12)
    ours = max_flow(network)
    assert flow.sum() == pytest.approx(ours.sum(), abs=1e-12)
    if network is NETWORKS["one-way"]:  # comes back edge by edge
        np.testing.assert_allclose((flow, ours), [[0.0, 0.25, 0.5]] * 2, atol=1e-15)

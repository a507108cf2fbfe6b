"""Which maximum-flow engine?  Every engine on the same networks, as ratios measured in one run.

    python -m benchmarks.flow_engines [--positions 20] [--data llama3] [--seconds 20]

Besides the engines that `max_flow` offers it times two that it does not: OR-Tools' push-relabel on 64-bit integers, if
installed, in a process of its own because its wheel cannot be loaded beside highspy; and SciPy's Dinic on 32-bit
integers, whose rounding shows in the last column.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from benchmarks.reporting import asking, show
from otspec.certificate import optimum, transport_network
from otspec.data import open_source
from otspec.extras import installed
from otspec.kernels.max_flow import Network
from otspec.laws import FloatArray
from otspec.problem import Problem
from otspec.reporting.tables import TextTable
from otspec.solvers.max_flow.engines import ENGINES, PACKAGES, edge_list

SETTINGS = ((10, 2), (10, 3), (10, 4), (10, 5), (100, 2), (100, 3), (1000, 2))


def ortools(network: Network) -> FloatArray:
    """OR-Tools' push-relabel, capacities rounded down to multiples of 2**-61."""
    from ortools.graph.python import max_flow  # not in requirements: see the module docstring

    scale = 2.0**61
    tails, heads, capacities = edge_list(network)
    graph: Any = max_flow.SimpleMaxFlow()
    arcs = graph.add_arcs_with_capacity(
        tails.astype(np.int32), heads.astype(np.int32), np.floor(capacities * scale).astype(np.int64)
    )
    graph.solve(*network.terminals)
    flow: FloatArray = graph.flows(arcs[network.supply.size :][: network.left.size]) / scale
    return flow


def scipy_dinic(network: Network) -> FloatArray:
    """SciPy's Dinic, capacities rounded down to multiples of 2**-30."""
    scale = 2.0**30
    tails, heads, capacities = edge_list(network)
    source, sink = network.terminals
    graph = csr_array((np.floor(capacities * scale).astype(np.int32), (tails, heads)), shape=(sink + 1, sink + 1))
    flow = maximum_flow(graph, source, sink).flow
    return np.asarray(flow[network.left, network.supply.size + network.right], dtype=np.float64).ravel() / scale


def measure(name: str, k: int, n: int, data: str, positions: int, seconds: float) -> tuple[list[float], float]:
    """Seconds per position, and the largest |flow - alpha*|; stops after a position that ends past the time limit."""
    engine: Callable[[Network], FloatArray] = {**ENGINES, "OR-Tools": ortools, "SciPy": scipy_dinic}[name]
    source = open_source(data)
    times: list[float] = []
    worst = 0.0
    engine(_network(source.position(0).problem(1, top_k=2).compact().problem))  # imports and compiles
    for index in range(positions):
        problem = source.position(index).problem(n, top_k=k).compact().problem
        network = _network(problem)
        started = time.perf_counter()
        flow = engine(network)
        times.append(time.perf_counter() - started)
        worst = max(worst, abs(float(flow.sum()) - optimum(problem).acceptance))
        if sum(times) > seconds:
            break
    return times, worst


def _network(problem: Problem) -> Network:
    return transport_network(problem, problem.scheme.draft_sets())


def main() -> None:
    """Print a table per setting."""
    parser = asking("Maximum-flow engines on the networks of multi-draft problems.", "llama3", 20)
    parser.add_argument("--seconds", type=float, default=20.0, help="per engine and setting")
    options = parser.parse_args()
    names = [name for name in ENGINES if all(map(installed, PACKAGES[name]))] + ["SciPy"]
    if installed("ortools"):
        names.append("OR-Tools")
    rows: list[tuple[str, ...]] = []
    for k, n in SETTINGS:
        baseline = None
        for name in tuple(names):
            # One process each: OR-Tools and highspy may not meet.
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                times, worst = pool.apply(measure, (name, k, n, options.data, options.positions, options.seconds))
            if max(times) > options.seconds:
                names.remove(name)  # hopeless on the larger networks that follow
            median = float(np.median(times)) * 1e3
            baseline = baseline or median
            figures = (f"{median:.3g}", f"{median / baseline:.1f}", f"{len(times)}", f"{worst:.0e}")
            rows.append((f"({k}, {n})", name, *figures))
    header = ("(k, n)", "engine", "median ms", "times numba", "positions", "max |flow - alpha*|")
    show(TextTable("Maximum-flow engines", header, rows, ""))


if __name__ == "__main__":
    main()

"""Maximum-flow engines with one signature: `Network` in, flow per edge out.

`numba` is our own Dinic (`otspec.kernels.max_flow`) and the default; `igraph` is the fastest of the installable
libraries that can be loaded beside highspy; `graph_tool` is the library of [thomas2025global]; `networkx` is the
reference, slow and in Python integers of any length.  All others run in floating point.
docs/solvers.md has their times; the 64-bit push-relabel of OR-Tools is faster
than igraph's, but its wheel has a HiGHS of its own: one process can load either it or highspy, not both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from otspec.extras import require
from otspec.kernels.max_flow import Network, max_flow
from otspec.laws import FloatArray, IntArray
from otspec.solvers.base import SolverBase
from otspec.tolerances import TOL

Engine = Callable[[Network], FloatArray]


def igraph(network: Network) -> FloatArray:
    """igraph's push-relabel, in floating point."""
    ig: Any = require("igraph")
    tails, heads, capacities = edge_list(network)
    source, sink = network.terminals
    graph = ig.Graph(n=sink + 1, edges=np.column_stack((tails, heads)), directed=True)
    flow = np.array(graph.maxflow(source, sink, capacities.tolist()).flow)
    return flow[network.supply.size :][: network.left.size]


def graph_tool(network: Network) -> FloatArray:
    """graph-tool's Boykov-Kolmogorov, in floating point."""
    require("graph_tool")
    gt: Any = require("graph_tool.flow")
    graph_type: Any = require("graph_tool").Graph
    tails, heads, capacities = edge_list(network)
    source, sink = network.terminals
    graph = graph_type(directed=True)
    graph.add_vertex(sink + 1)
    graph.add_edge_list(np.column_stack((tails, heads)))
    capacity = graph.new_edge_property("double", vals=capacities)
    residual = gt.boykov_kolmogorov_max_flow(graph, graph.vertex(source), graph.vertex(sink), capacity)
    flow = capacities - np.asarray(residual.a)[: capacities.size]
    return flow[network.supply.size :][: network.left.size]


def networkx(network: Network) -> FloatArray:
    """networkx's preflow-push on Python integers, capacities rounded down to multiples of 2**-80.

    Its algorithms are not meant for floats, where rounding can keep them from ending.
    """
    nx: Any = require("networkx")
    scale = 1 << 80
    tails, heads, capacities = edge_list(network)
    source, sink = network.terminals
    graph = nx.DiGraph()
    for tail, head, capacity in zip(tails.tolist(), heads.tolist(), capacities.tolist(), strict=True):
        graph.add_edge(tail, head, capacity=int(capacity * scale))
    flows = nx.maximum_flow(graph, source, sink)[1] if source in graph and sink in graph else {}
    first_set = network.supply.size
    return np.array(
        [flows[i][first_set + s] / scale for i, s in zip(network.left.tolist(), network.right.tolist(), strict=True)]
    )


ENGINES: dict[str, Engine] = {"numba": max_flow, "igraph": igraph, "graph_tool": graph_tool, "networkx": networkx}
PACKAGES: dict[str, tuple[str, ...]] = {
    "numba": (),
    "igraph": ("igraph",),
    "graph_tool": ("graph_tool",),
    "networkx": ("networkx",),
}


@dataclass(frozen=True)
class FlowSolver(SolverBase):
    """Settings of a solver that runs one of the engines.

    Parameters
    ----------
    engine : str
        ``numba`` (ours, the default), ``igraph``, ``graph_tool`` or ``networkx``.
    tol : float
        Largest gap and deviation, both probabilities, of a plan that counts as optimal.
    max_cells : int
        Largest network, in edges between tokens and draft sets.  An edge takes about 100 bytes.
    """

    engine: str = "numba"
    tol: float = TOL
    max_cells: int = 4_000_000

    schemes: ClassVar[str] = "any whose draft sets can be listed"

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise ValueError(f"no max-flow engine {self.engine!r}; known: {', '.join(ENGINES)}")

    @property
    def packages(self) -> tuple[str, ...]:
        """Optional packages that the engine needs."""
        return PACKAGES[self.engine]


def edge_list(network: Network) -> tuple[IntArray, IntArray, FloatArray]:
    """Tails, heads and capacities of a network for a graph library.

    Source edges come first, then one edge per cell, then sink edges; nodes are numbered tokens first, then sets, then
    source and sink.  An edge from token to set has no limit in the network; the set's own capacity serves as one.

    Parameters
    ----------
    network : Network
        Of k tokens, m sets and some cells.

    Returns
    -------
    tails, heads : ndarray of int, shape (k + cells + m,)
        Nodes that each edge leaves and enters.
    capacities : ndarray, shape (k + cells + m,)
        Probabilities.
    """
    k, m = network.supply.size, network.demand.size
    source, sink = network.terminals
    right = network.right
    tails = np.concatenate((np.full(k, source), network.left, k + np.arange(m)))
    heads = np.concatenate((np.arange(k), k + right, np.full(m, sink)))
    return tails, heads, np.concatenate((network.supply, network.demand[right], network.demand))

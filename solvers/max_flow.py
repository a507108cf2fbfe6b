"""`max_flow`: the relaxed transport program as a maximum flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from otspec.certificate import optimum
from otspec.flow import Network
from otspec.plans import Coupling
from otspec.problem import Problem
from otspec.registry import Solution, register
from otspec.solvers.flow_engines import ENGINES, PACKAGES, check_engine
from otspec.solvers.sizes import cells_at_most, refuse_above
from otspec.tolerances import TOL


@register("max_flow")
@dataclass(frozen=True)
class MaxFlow:
    """Maximum flow from tokens to draft sets [thomas2025global, section 5.2].

    Parameters
    ----------
    engine : str
        ``numba`` (ours, the default), ``igraph``, ``graph_tool`` or ``networkx``; see `otspec.solvers.flow_engines`.
    tol : float
        Largest gap and deviation, both probabilities, of a plan that counts as optimal.
    max_cells : int
        Largest network, in edges between tokens and draft sets.  A cell takes about 100 bytes.
    """

    engine: str = "numba"
    tol: float = TOL
    max_cells: int = 4_000_000

    name: ClassVar[str]
    exact: ClassVar[bool] = True
    schemes: ClassVar[str] = "any whose draft sets can be listed"
    variants: ClassVar[tuple[str, ...]] = tuple(f"max_flow:engine={engine}" for engine in ENGINES if engine != "numba")

    def __post_init__(self) -> None:
        check_engine(self.engine)

    @property
    def packages(self) -> tuple[str, ...]:
        """Optional packages that the engine needs."""
        return PACKAGES[self.engine]

    def supports(self, problem: Problem) -> str | None:
        """Every problem, up to its size."""
        return None

    def __call__(self, problem: Problem) -> Solution:
        """Solve by one maximum flow; the plan is the flow, completed by the residual law."""
        refuse_above(self.max_cells, cells_at_most(problem), "network edges")
        sets = problem.scheme.draft_sets()
        flow = ENGINES[self.engine](Network.of(problem, sets))
        plan = Coupling.fit(problem, sets, flow, optimum(problem).bound)
        return Solution(plan, {"sets": len(sets), "cells": sets.cells.size})

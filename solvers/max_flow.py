"""`max_flow`: the relaxed transport program as a maximum flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from otspec.certificate import optimum
from otspec.flow import Network
from otspec.plans import Coupling
from otspec.problem import Problem
from otspec.registry import Solution, register
from otspec.solvers.flow_engines import ENGINES, FlowSolver
from otspec.solvers.sizes import cells_at_most, refuse_above


@register("max_flow")
@dataclass(frozen=True)
class MaxFlow(FlowSolver):
    """Maximum flow from tokens to draft sets [thomas2025global, section 5.2].

    The settings are those of `otspec.solvers.flow_engines.FlowSolver`.
    """

    variants: ClassVar[tuple[str, ...]] = tuple(f"max_flow:engine={engine}" for engine in ENGINES if engine != "numba")

    def __call__(self, problem: Problem) -> Solution:
        """Solve by one maximum flow; the plan is the flow, completed by the residual law."""
        refuse_above(self.max_cells, cells_at_most(problem), "network edges")
        sets = problem.scheme.draft_sets()
        flow = ENGINES[self.engine](Network.of(problem, sets))
        plan = Coupling.fit(problem, sets, flow, optimum(problem).bound)
        return Solution(plan, {"sets": len(sets), "cells": sets.cells.size})

"""`max_flow`: the relaxed transport program as a maximum flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from otspec.certificate import cells_at_most, optimum, transport_network
from otspec.plans import Coupling
from otspec.problem import Problem
from otspec.solver import Solution, register
from otspec.solvers.base import refuse_above
from otspec.solvers.max_flow.engines import ENGINES, FlowSolver


@register("max_flow")
@dataclass(frozen=True)
class MaxFlow(FlowSolver):
    """Maximum flow from tokens to draft sets [thomas2025global, section 5.2].

    The settings are those of `otspec.solvers.max_flow.engines.FlowSolver`.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.Table([[0, 1], [2, 2]], [0.25, 0.75], vocab=3))
    >>> print(f"{otspec.solve(problem, otspec.solvers.MaxFlow()).plan.acceptance:.3f}")
    0.450
    """

    variants: ClassVar[tuple[str, ...]] = tuple(f"max_flow:engine={engine}" for engine in ENGINES if engine != "numba")

    def __call__(self, problem: Problem) -> Solution:
        """Solve by one maximum flow; the plan is the flow, completed by the residual law."""
        refuse_above(self.max_cells, cells_at_most(problem), "network edges")
        sets = problem.scheme.draft_sets()
        flow = ENGINES[self.engine](transport_network(problem, sets))
        plan = Coupling.fit(problem, sets, flow, optimum(problem, self.max_cells).bound)
        return Solution(plan, {"sets": len(sets), "cells": sets.cells.size})

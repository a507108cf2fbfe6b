"""`max_flow`: the relaxed transport program as a maximum flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from otspec.certificate import MAX_CELLS, cells_at_most, optimum, transport_network
from otspec.plans import Coupling
from otspec.problem import Problem
from otspec.solver import Solution, register
from otspec.solvers.base import refuse_above
from otspec.solvers.max_flow.engines import ENGINES, FlowSolver
from otspec.solvers.tuples import Tuples


@register("max_flow")
@dataclass(frozen=True)
class MaxFlow(FlowSolver):
    """Maximum flow from tokens to draft sets [thomas2025global, section 5.2].

    Its other settings are those of `otspec.solvers.max_flow.engines.FlowSolver`.

    Parameters
    ----------
    form : str
        ``sets``: one node for each set of distinct tokens that the drafts can form.  ``tuples``: one for each tuple of
        drafts, in their order, as the network is printed; the plan sums up the tuples of each set.

    Raises
    ------
    ValueError
        If there is no such form.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.Table([[0, 1], [2, 2]], [0.25, 0.75], vocab=3))
    >>> print(f"{otspec.solve(problem, otspec.solvers.MaxFlow()).plan.acceptance:.3f}")
    0.450
    """

    form: str = "sets"

    variants: ClassVar[tuple[str, ...]] = tuple(f"max_flow:engine={engine}" for engine in ENGINES if engine != "numba")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form not in ("sets", "tuples"):
            raise ValueError(f"no form {self.form!r} of the network; known: sets, tuples")

    def __call__(self, problem: Problem) -> Solution:
        """Solve by one maximum flow; the plan is the flow, completed by the residual law."""
        printed = self.form == "tuples"
        needed = problem.n * problem.scheme.support_size() if printed else cells_at_most(problem)
        refuse_above(self.max_cells, needed, "network edges")
        tuples = Tuples.of(problem) if printed else None
        sets = tuples.sets if tuples else problem.scheme.draft_sets()
        rows = tuples.rows if tuples else sets
        flow = ENGINES[self.engine](transport_network(problem, rows))
        accepted = tuples.cells_by_set(flow) if tuples else flow
        plan = Coupling.fit(problem, sets, accepted, optimum(problem, max(self.max_cells, MAX_CELLS)).bound)
        return Solution(plan, {"sets": len(rows), "cells": rows.cells.size})

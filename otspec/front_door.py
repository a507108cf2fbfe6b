"""`otspec.solve`: one call, one return type."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from otspec.plans import Plan
from otspec.problem import Problem
from otspec.registry import Solver, Stopped, TupleSolver, get, settings_of
from otspec.results import Result, SolveError, Stats, Status
from otspec.schemes import IID


def solve(problem: Problem, solver: str | Solver | None = None, strict: bool = True) -> Result:
    """Solve a multi-draft problem and certify the plan.

    Parameters
    ----------
    problem : Problem
    solver : str or Solver, optional
        A registered name (``"lp"``, or with settings ``"max_flow:engine=networkx"``), or an instance
        (``otspec.solvers.lp.LP(tol=1e-7)``).  By default ``"interval"`` for i.i.d. drafts, which has no size limit,
        and ``"max_flow"`` for any other scheme.
    strict : bool
        Raise unless the plan is certified optimal.  With False, a solver that stops early returns a result without a
        plan, or with one that is not optimal, and says why.

    Returns
    -------
    Result
        Its status rests on the gap and the deviation that the plan measures about itself.

    Raises
    ------
    UnknownSolver
        If there is no solver of that name.
    SolveError
        If strict and the status is not OPTIMAL; the error holds the result.
    MissingExtra
        If the solver needs a package that is not installed.
    """
    if solver is None:
        solver = "interval" if isinstance(problem.scheme, IID) else "max_flow"
    chosen = get(solver) if isinstance(solver, str) else solver
    started = time.perf_counter()
    sizes: Mapping[str, int] = {}
    plan: Plan | None = None
    if reason := chosen.supports(problem):
        status, message = Status.UNSUPPORTED, reason
    else:
        try:
            plan, sizes = chosen(problem)
            status, message = _judge(plan, chosen.tol)
        except Stopped as stop:
            status, message = stop.status, stop.message
    stats = Stats(chosen.name, settings_of(chosen), time.perf_counter() - started, sizes)
    result = Result(status, plan if status in (Status.OPTIMAL, Status.FEASIBLE) else None, message, stats)
    if strict and status is not Status.OPTIMAL:
        raise SolveError(result)
    return result


def warm_up(solver: Solver, n: int = 2) -> None:
    """Solve a small problem, so that what is timed next pays for no import and no compilation."""
    problem = Problem(np.array([0.5, 0.3, 0.2]), IID(np.array([0.2, 0.2, 0.6]), n))
    drafts = np.zeros(n, dtype=np.int64)
    plan = solve(problem, solver, strict=False).plan
    if plan is not None:
        plan.conditional(drafts)
    if isinstance(solver, TupleSolver):
        with suppress(Stopped):
            solver.conditional(problem, drafts)


def _judge(plan: Plan, tol: float) -> tuple[Status, str]:
    gap, deviation = plan.gap, plan.deviation
    figures = f"acceptance {plan.acceptance:.9g}, gap {gap:.2g}, deviation {deviation:.2g} (tol {tol:g})"
    if not np.isfinite([gap, deviation]).all() or deviation > tol or gap < -tol:
        return Status.NUMERICAL, figures
    return (Status.OPTIMAL if gap <= tol else Status.FEASIBLE), figures

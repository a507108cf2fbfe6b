"""`otspec.solve`: one call, one return type, and the solver of choice for each draft law."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal, overload

import numpy as np

from otspec.catalogue import get
from otspec.plans import Plan
from otspec.problem import Problem
from otspec.results import Result, Solved, SolveError, Stats, Status
from otspec.schemes import IID, CircularArcs, DraftScheme, FixedPlusOne, HubPairs, Independent, WithoutReplacement
from otspec.solver import Solver, Stopped, TupleSolver, settings_of

Chosen = str | Solver | Sequence[str | Solver] | None
"""A solver by name or as an instance, a chain of them, or None for the solver of choice."""


@overload
def solve(problem: Problem, solver: Chosen = None, strict: Literal[True] = True) -> Solved: ...


@overload
def solve(problem: Problem, solver: Chosen = None, *, strict: bool) -> Result: ...


@overload
def solve(problem: Problem, solver: Chosen, strict: bool) -> Result: ...


def solve(problem: Problem, solver: Chosen = None, strict: bool = True) -> Result:
    """Solve a multi-draft problem and certify the plan.

    Parameters
    ----------
    problem : Problem
    solver : str, Solver or a sequence of them, optional
        A registered name (``"lp"``, or with settings ``"max_flow:engine=networkx"``), or an instance
        (``otspec.solvers.lp.LP(tol=1e-7)``).  By default `default_solver`.  Several are a chain: each is tried in turn
        until one succeeds, as in ``["global_resolution", "interval"]``.
    strict : bool
        Raise unless a solver succeeds: an exact one with an OPTIMAL plan, any other with the FEASIBLE or LOSSY plan
        that it promises.  With False, a solver that stops early returns a result without a plan, and an exact one
        that does not reach its tolerance a plan that is not optimal; the message says why.

    Returns
    -------
    Result
        A `Solved` one if it has a plan, as it always has if strict.  Its status rests on the gap and the deviation that
        the plan measures about itself.  A chain returns the first result that is a success, or else the last; `tried`
        holds those before it.

    Raises
    ------
    UnknownSolver
        If there is no solver of that name.
    SolveError
        If strict and no solver succeeds; the error holds the result.
    MissingExtra
        If a solver that is tried needs a package that is not installed.
    ValueError
        If the chain is empty.
    """
    if solver is None:
        solver = default_solver(problem)
    chain = solver if isinstance(solver, Sequence) and not isinstance(solver, str) else [solver]
    if not chain:
        raise ValueError("the chain of solvers is empty; name at least one, or leave `solver` out for the default")
    tried: list[Result] = []
    for chosen in [get(link) if isinstance(link, str) else link for link in chain]:
        result = replace(_attempt(problem, chosen), tried=tuple(tried))
        if result.success:
            return result
        tried.append(replace(result, tried=()))
    if strict:
        raise SolveError(result)
    return result


BEST: tuple[tuple[type[DraftScheme], str], ...] = (
    (IID, "interval"),
    (FixedPlusOne, "closed_form"),
    (CircularArcs, "earliest_deadline"),
    (HubPairs, "spechub"),
    (Independent, "luce"),
    (WithoutReplacement, "release"),
)
"""The solver of choice for a kind of scheme, without a size limit: exact, or certified where nothing is exact."""


def default_solver(problem: Problem) -> str:
    """Name of the solver of choice for a problem; `otspec solvers --schemes` shows them all."""
    if problem.n == 1 and not isinstance(problem.scheme, IID):
        return "closed_form"
    return next((name for kind, name in BEST if isinstance(problem.scheme, kind)), "max_flow")


def warm_up(solver: Solver, n: int = 2) -> None:
    """Solve a small problem, so that the times measured next do not include imports and compilation."""
    problem = Problem(np.array([0.5, 0.3, 0.2]), IID(np.array([0.2, 0.2, 0.6]), n))
    drafts = np.zeros(n, dtype=np.int64)
    plan = solve(problem, solver, strict=False).plan
    if plan is not None:
        plan.conditional(drafts)
    if isinstance(solver, TupleSolver):
        with suppress(Stopped):
            solver.conditional(problem, drafts)


def _attempt(problem: Problem, solver: Solver) -> Result:
    started = time.perf_counter()
    sizes: Mapping[str, int] = {}
    plan: Plan | None = None
    if reason := solver.supports(problem):
        status, message = Status.UNSUPPORTED, reason
    else:
        try:
            plan, sizes = solver(problem)
            status, message = _judge(plan, solver.tol)
        except Stopped as stop:
            status, message = stop.status, stop.message
    stats = Stats(solver.name, settings_of(solver), time.perf_counter() - started, sizes)
    usable = status in (Status.OPTIMAL, Status.FEASIBLE, Status.LOSSY)
    success = status is Status.OPTIMAL or (usable and not solver.exact)
    if plan is not None and usable:
        return Solved(status, success, plan, message, stats)
    return Result(status, success, None, message, stats)


def _judge(plan: Plan, tol: float) -> tuple[Status, str]:
    gap, deviation = plan.gap, plan.deviation
    figures = f"acceptance {plan.acceptance:.9g}, gap {gap:.2g}, deviation {deviation:.2g} (tol {tol:g})"
    # A rule that may deviate may also accept more than a lossless one can.
    off = tol + plan.max_deviation
    if not np.isfinite([gap, deviation]).all() or deviation > off or gap < -off:
        return Status.NUMERICAL, figures
    if deviation > tol:
        return Status.LOSSY, figures
    return (Status.OPTIMAL if gap <= tol else Status.FEASIBLE), figures

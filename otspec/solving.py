"""`otspec.solve`: one call, one return type, and the solver of choice for each draft law."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Literal, overload

import numpy as np

from otspec.catalogue import as_solver
from otspec.certificate import FLOW_CELLS
from otspec.errors import ProblemError
from otspec.plans import Plan
from otspec.problem import Problem
from otspec.results import Result, Solved, SolveError, Stats, Status
from otspec.schemes import IID, DraftScheme, FixedPlusOne, HubPairs, Independent, WithoutReplacement
from otspec.solver import Solver, Stopped, most_gap, settings_of

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
        (``otspec.solvers.lp.LP(tol=1e-7)``).  By default `default_chain`.  Several are a chain: each is tried in turn
        until one succeeds, as in ``["global_resolution", "interval"]``.
    strict : bool
        Raise unless a solver succeeds: an exact one with an OPTIMAL plan, any other with the FEASIBLE or LOSSY plan
        that it promises.  With False, a solver that stops early returns a result without a plan, and an exact one
        that does not reach its tolerance a plan that is not optimal; the message says why.  By default a plan that is
        lossless and not proved optimal does as well, where none is exact: see `default_chain`.

    Returns
    -------
    Result
        A `Solved` one if it has a plan, as it always has if strict.  Its status rests on the gap and the deviation that
        the plan measures about itself.  A chain returns the first result that is a success, or else the last; `tried`
        holds those before it.

    Raises
    ------
    ProblemError
        If `problem` is not a `Problem`, or the chain of solvers is empty.
    UnknownSolver
        If there is no solver of that name, or something else is given in its place.
    SolveError
        If strict and no solver succeeds; the error holds the result.
    MissingExtra
        If a solver that is tried needs a package that is not installed.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> result = otspec.solve(problem)  # by interval, the solver of choice for i.i.d. drafts
    >>> result.status.name
    'OPTIMAL'
    >>> print(f"{result.plan.acceptance:.3f} of at most {result.plan.bound:.3f}")
    0.860 of at most 0.860

    Another solver by name, and a chain of which the first that succeeds is returned:

    >>> print(f"{otspec.solve(problem, 'kseq').plan.acceptance:.3f}")
    0.791
    >>> otspec.solve(problem, ["lp:max_cells=1", "interval"]).stats.solver
    'interval'
    """
    if not isinstance(problem, Problem):
        raise ProblemError(
            f"the problem is a {type(problem).__name__}; pass otspec.Problem(p, otspec.IID(q, n)) of laws p and q"
        )
    by_default = solver is None
    if solver is None:
        solver = default_chain(problem)
    chain = solver if isinstance(solver, Sequence) and not isinstance(solver, str | bytes) else [solver]
    if not chain:
        raise ProblemError("the chain of solvers is empty; name at least one, or leave `solver` out for the default")
    tried: list[Result] = []
    for chosen in [as_solver(link) for link in chain]:
        result = _attempt(problem, chosen, tuple(tried))
        if result.success:
            return result
        if by_default and _gap(result) <= NEAR:
            return replace(result, success=True)
        tried.append(replace(result, tried=()))
    if by_default and np.isfinite(_gap(nearest := min(tried, key=_gap))):
        others = tuple(one for one in tried if one is not nearest)
        return replace(nearest, success=True, tried=others, message=f"{nearest.message}, and no solver came nearer")
    if strict:
        raise SolveError(result)
    return result


BEST: tuple[tuple[type[DraftScheme], str], ...] = (
    (IID, "interval"),
    (FixedPlusOne, "closed_form"),
    (HubPairs, "spechub"),
    (Independent, "distinct_drafters"),
    (WithoutReplacement, "without_replacement"),
)
"""The solver of choice for a kind of scheme, without a size limit: exact, or certified where nothing is exact."""


NEAR = 1e-6
"""By default a certified gap up to this is not worth the time of another solver."""

FALLBACKS = (f"max_flow:max_cells={FLOW_CELLS}", "submodular:max_seconds=10")
"""What follows a solver that stopped short: exact where that takes a second, then a search that always has a plan."""


def default_solver(problem: Problem) -> str:
    """The registered name of the solver of choice for a problem; `otspec solvers --schemes` shows them all."""
    if problem.n == 1 and not isinstance(problem.scheme, IID):
        return "closed_form"
    return next((name for kind, name in BEST if isinstance(problem.scheme, kind)), "max_flow")


def default_chain(problem: Problem) -> tuple[str, ...]:
    """What `otspec.solve` tries by default: the solver of choice, and what steps in where it may stop short.

    `distinct_drafters` needs infinite weights where a set of tokens is tight, and `max_flow` stops at its size: for
    independent drafts and for laws without a solver of their own, `FALLBACKS` follow.  The first plan with a certified
    gap up to `NEAR` is taken, and if there is none the one of least gap: lossless, FEASIBLE, and its gap is known.
    """
    first = default_solver(problem)
    if first == "distinct_drafters":
        return first, *FALLBACKS
    return (first, FALLBACKS[-1]) if first == "max_flow" else (first,)


def _attempt(problem: Problem, solver: Solver, tried: tuple[Result, ...]) -> Result:
    started = time.perf_counter()
    sizes: Mapping[str, int] = {}
    plan: Plan | None = None
    if isinstance(reason := solver.supports(problem), bool):
        raise ProblemError(f"{solver.name}: supports returned {reason}; return why a problem is not taken, or None")
    if reason:
        status, message = Status.UNSUPPORTED, reason
    else:
        try:
            solution: object = solver(problem)
            if not (isinstance(solution, tuple) and len(solution) == 2 and hasattr(solution[0], "deviation")):
                raise ProblemError(f"{solver.name} returned {solution!r:.80}; return a Solution: a plan, and sizes")
            plan, sizes = solution
            status, message = _judge(plan, solver.tol)
        except Stopped as stop:
            status, message = stop.status, stop.message
    stats = Stats(solver.name, settings_of(solver), time.perf_counter() - started, sizes)
    usable = status in (Status.OPTIMAL, Status.FEASIBLE, Status.LOSSY)
    success = plan is not None and (status is Status.OPTIMAL or (usable and not solver.exact))
    if plan is not None and usable:
        return Solved(status, success, plan, message, stats, tried)
    return Result(status, success, None, message, stats, tried)


def _gap(result: Result) -> float:
    """Certified gap of a lossless plan; infinite where there is none."""
    return np.inf if result.plan is None or result.status is Status.LOSSY else result.plan.gap


def _judge(plan: Plan, tol: float) -> tuple[Status, str]:
    gap, deviation = plan.gap, plan.deviation
    figures = f"acceptance {plan.acceptance:.9g}, gap {gap:.2g}, deviation {deviation:.2g} (tol {tol:g})"
    # A rule that may deviate may also accept more than a lossless one can.
    off = tol + plan.max_deviation
    if not (isfinite(gap) and isfinite(deviation)) or deviation > off or gap < -off:
        return Status.NUMERICAL, figures
    if deviation > tol:
        return Status.LOSSY, figures
    if tol >= gap > most_gap(plan.bound, tol):
        return Status.FEASIBLE, f"{figures}, a gap of {gap / plan.bound:.2g} of the bound"
    return (Status.OPTIMAL if gap <= tol else Status.FEASIBLE), figures

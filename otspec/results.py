"""What comes back from a solve: a status with its reason, the plan, and the cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from html import escape

from otspec.plans import Plan


class Status(Enum):
    """How a solve ended; the value says what the status means.

    Examples
    --------
    >>> import otspec
    >>> for status in otspec.Status:
    ...     print(f"{status.name}: {status.value}")
    OPTIMAL: gap and deviation within tol, the gap a small share of the bound
    FEASIBLE: lossless plan, optimality not certified
    LOSSY: output law off the target by no more than the plan's rule promises
    LIMIT: stopped by a size, step or time limit
    UNSUPPORTED: the solver does not take such a problem
    NUMERICAL: non-finite values, or a plan further from lossless than its rule promises
    """

    OPTIMAL = "gap and deviation within tol, the gap a small share of the bound"
    FEASIBLE = "lossless plan, optimality not certified"
    LOSSY = "output law off the target by no more than the plan's rule promises"
    LIMIT = "stopped by a size, step or time limit"
    UNSUPPORTED = "the solver does not take such a problem"
    NUMERICAL = "non-finite values, or a plan further from lossless than its rule promises"


@dataclass(frozen=True)
class Stats:
    """The cost of a solve."""

    solver: str
    """Registered name."""
    settings: Mapping[str, object]
    """The solver's settings, by name."""
    wall_s: float
    """Seconds from the call of the solver to its certified plan."""
    sizes: Mapping[str, int]
    """Sizes that drive the cost, e.g. the cells of a program; the solver's documentation says what each means."""


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The answer of `otspec.solve`.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> result = otspec.solve(problem, "max_flow:max_cells=1", strict=False)
    >>> result.status.name, result.success, result.plan is None
    ('LIMIT', False, True)
    """

    status: Status
    success: bool
    """Whether the solver did what it promises: OPTIMAL, or FEASIBLE or LOSSY from one that promises no more."""
    plan: Plan | None
    """Present exactly when the status is OPTIMAL, FEASIBLE or LOSSY."""
    message: str
    """One sentence with the numbers that decided the status."""
    stats: Stats
    tried: tuple[Result, ...] = ()
    """Of a chain of solvers: the results of those before this one, none of which succeeded."""

    def __repr__(self) -> str:
        after = f", after {', '.join(one.stats.solver for one in self.tried)}" if self.tried else ""
        what = "see its plan" if self.plan is not None else "there is no plan"
        took = f"{1e3 * self.stats.wall_s:.3g} ms"
        return f"<Result of {self.stats.solver}{after}: {self.status.name}, {self.message}; {took}; {what}>"

    def _repr_html_(self) -> str:
        """A small table, for notebooks."""
        rows = {"solver": self.stats.solver, "status": f"{self.status.name}: {self.status.value}"}
        if self.plan is not None:
            rows["acceptance"] = f"{self.plan.acceptance:.9g}"
            rows["gap, deviation"] = f"{self.plan.gap:.2g}, {self.plan.deviation:.2g}"
        else:
            rows["reason"] = self.message
        rows["time"] = f"{1e3 * self.stats.wall_s:.3g} ms"
        if self.tried:
            rows["tried before"] = ", ".join(f"{one.stats.solver} ({one.status.name})" for one in self.tried)
        cells = (f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows.items())
        return f"<table>{''.join(cells)}</table>"


@dataclass(frozen=True, eq=False, repr=False)
class Solved(Result):
    """A result that has a plan.

    Examples
    --------
    >>> import otspec
    >>> solved = otspec.solve(otspec.Problem([0.5, 0.5], otspec.IID([0.9, 0.1], n=2)))  # has a plan
    >>> print(f"{solved.plan.acceptance:.2f}")
    0.69
    """

    plan: Plan


class SolveError(RuntimeError):
    """A strict `otspec.solve` ended without the plan that its solver is meant to give.

    Attributes
    ----------
    result : Result
        What the solver did return, with its status, message and figures.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> try:
    ...     otspec.solve(problem, "max_flow:max_cells=1")
    ... except otspec.SolveError as error:
    ...     error.result.status.name
    'LIMIT'
    """

    def __init__(self, result: Result) -> None:
        attempts = (*result.tried, result)
        hint = "; strict=False returns the plan, and a solver that does not promise the optimum says exact = False"
        attempted = "; ".join(f"{one.stats.solver}: {one.status.name}, {one.message}" for one in attempts)
        super().__init__(attempted if result.plan is None else attempted + hint)
        self.result = result

    def __reduce__(self) -> tuple[type[SolveError], tuple[Result]]:
        return SolveError, (self.result,)  # BaseException would rebuild it from its message

"""What comes back from a solve: a status with its reason, the plan, and the cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from otspec.plans import Plan


class Status(Enum):
    """How a solve ended; the value says what the status means."""

    OPTIMAL = "gap and deviation within tol"
    FEASIBLE = "lossless plan, optimality not certified"
    LIMIT = "stopped by a size, step or time limit"
    UNSUPPORTED = "the solver does not take such a problem"
    NUMERICAL = "non-finite values, or a plan that is not lossless within tol"


@dataclass(frozen=True)
class Stats:
    """What a solve took."""

    solver: str
    """Registered name."""
    settings: Mapping[str, object]
    """The solver's settings, by name."""
    wall_s: float
    """Seconds from the call of the solver to its certified plan."""
    sizes: Mapping[str, int]
    """Sizes that drive the cost, e.g. the cells of a program; what each means is the solver's to say."""


@dataclass(frozen=True, eq=False)
class Result:
    """The answer of `otspec.solve`."""

    status: Status
    plan: Plan | None
    """Present exactly when the status is OPTIMAL or FEASIBLE."""
    message: str
    """One sentence with the numbers that decided the status."""
    stats: Stats


class SolveError(RuntimeError):
    """A strict `otspec.solve` ended without a certified optimum.

    Attributes
    ----------
    result : Result
        What the solver did return, with its status, message and figures.
    """

    def __init__(self, result: Result) -> None:
        super().__init__(f"{result.stats.solver}: {result.status.name}, {result.message}")
        self.result = result

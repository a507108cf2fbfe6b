"""What a solver is: the protocol, what it returns or raises, and how it is registered under a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

from otspec.laws import ArrayLike, FloatArray
from otspec.plans import Plan
from otspec.problem import Problem
from otspec.results import Status
from otspec.tolerances import RELATIVE_TOL, ROUNDING, TOL


class Solution(NamedTuple):
    """A plan, and the sizes that its solver met."""

    plan: Plan
    sizes: Mapping[str, int]


class Stopped(Exception):
    """Raised inside a solver that cannot go on; `otspec.solve` turns it into a result."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = Status(status)
        self.message = message


@runtime_checkable
class Solver(Protocol):
    """A frozen dataclass of typed settings that turns a problem into a plan.

    `otspec.solve` times the call and certifies the plan, so a solver reports no figures of its own.
    """

    name: ClassVar[str]
    exact: ClassVar[bool]
    """Whether every plan is meant to be optimal within tol."""
    schemes: ClassVar[str]
    """The draft schemes that the solver takes, in words."""
    variants: ClassVar[tuple[str, ...]]
    """Spellings, as `get` takes them, of settings that a comparison should show beside the default."""

    @property
    def tol(self) -> float:
        """Largest gap and deviation of a plan that counts as optimal."""

    @property
    def packages(self) -> tuple[str, ...]:
        """Optional packages that these settings need."""

    def supports(self, problem: Problem) -> str | None:
        """None, or the reason why the solver does not take the problem."""

    def __call__(self, problem: Problem) -> Solution:
        """Solve.  Raises `Stopped` with a status and a reason where it cannot."""


@runtime_checkable
class TupleSolver(Solver, Protocol):
    """A solver that answers for one tuple of drafts with less work than the whole plan takes."""

    def conditional(self, problem: Problem, drafts: ArrayLike) -> FloatArray:
        """Law of the output given the drafts, shape (n,) to (V,)."""


def most_gap(bound: float, tol: float) -> float:
    """The largest gap of an optimal plan: `tol`, and a share of the bound, where all acceptance is less than `tol`."""
    return min(tol, max(RELATIVE_TOL / TOL * tol * bound, ROUNDING))


REGISTRY: dict[str, type[Any]] = {}
"""Classes of the solvers registered so far, by name; `otspec.catalogue` makes sure that all are."""
S = TypeVar("S")


def register(name: str) -> Callable[[type[S]], type[S]]:
    """Class decorator: make a solver known under a name.

    Parameters
    ----------
    name : str
        What `otspec.solve` and the command line call it.

    Raises
    ------
    ValueError
        If the name is taken.
    TypeError
        If the class is not a dataclass, or lacks something that the `Solver` protocol requires.
    """

    def enter(solver: type[S]) -> type[S]:
        if name in REGISTRY:
            raise ValueError(f"a solver named {name!r} is registered already: {REGISTRY[name].__qualname__}")
        check_solver_class(solver)
        solver.name = name  # type: ignore[attr-defined]  # the ClassVar of the Solver protocol
        REGISTRY[name] = solver
        return solver

    return enter


def check_solver_class(solver: type[Any]) -> None:
    """Refuse a class that the rest of the package could not run as a solver.

    Raises
    ------
    TypeError
        If it is not a dataclass, or lacks something that the `Solver` protocol requires.
    """
    if not is_dataclass(solver):
        raise TypeError(f"{solver.__qualname__} is not a dataclass; settings are fields of a frozen dataclass")
    settings = {entry.name for entry in fields(solver)}
    needed = ("exact", "schemes", "variants", "packages", "tol", "supports", "__call__")
    lacking = [member for member in needed if member not in settings and not hasattr(solver, member)]
    if lacking:
        raise TypeError(
            f"{solver.__qualname__} lacks {', '.join(lacking)}; derive it from otspec.solvers.base.SolverBase, "
            "or see otspec.solver.Solver"
        )


def settings_of(solver: Solver) -> dict[str, object]:
    """The settings of a solver by name."""
    return {name: getattr(solver, name) for name in _setting_names(type(solver))}


@cache
def _setting_names(solver: type[Any]) -> tuple[str, ...]:
    return tuple(entry.name for entry in fields(solver))

"""Solvers by name: what a solver is, how one is registered, found and described."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, fields, is_dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, get_type_hints, runtime_checkable

from otspec.errors import UnknownSolver
from otspec.extras import missing
from otspec.laws import FloatArray, IntArray
from otspec.plans import Plan
from otspec.problem import Problem
from otspec.results import Status


class Solution(NamedTuple):
    """A plan, and the sizes that its solver met."""

    plan: Plan
    sizes: Mapping[str, int]


class Stopped(Exception):
    """Raised inside a solver that cannot go on; `otspec.solve` turns it into a result."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@runtime_checkable
class Solver(Protocol):
    """A frozen dataclass of typed settings that turns a problem into a plan.

    The front door times the call and certifies the plan, so a solver reports no figures of its own.
    """

    name: ClassVar[str]
    exact: ClassVar[bool]
    """Whether every plan is meant to be optimal within tol."""
    schemes: ClassVar[str]
    """The draft schemes it takes, in words."""
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

    def conditional(self, problem: Problem, drafts: IntArray) -> FloatArray:
        """Law of the output given the drafts, shape (n,) to (V,)."""


@dataclass(frozen=True)
class SolverInfo:
    """A registered solver, described."""

    name: str
    summary: str
    exact: bool
    schemes: str
    settings: Mapping[str, object]
    """Settings and their defaults."""
    variants: tuple[str, ...]
    """Spellings of other settings worth comparing."""
    missing: tuple[str, ...]
    """Optional packages that the default settings need and that are not installed."""


_SOLVERS: dict[str, type[Any]] = {}
S = TypeVar("S")


def register(name: str) -> Callable[[type[S]], type[S]]:
    """Class decorator: make a solver known under a name."""

    def enter(solver: type[S]) -> type[S]:
        if name in _SOLVERS:
            raise ValueError(f"a solver named {name!r} is registered already: {_SOLVERS[name].__qualname__}")
        if not is_dataclass(solver):
            raise TypeError(f"{solver.__qualname__} is no dataclass; settings are fields of a frozen dataclass")
        solver.name = name  # type: ignore[attr-defined]  # the ClassVar of the Solver protocol
        _SOLVERS[name] = solver
        return solver

    return enter


def get(spelling: str) -> Solver:
    """The solver of that name; settings may follow, as in ``"max_flow:engine=networkx"``.

    Raises
    ------
    UnknownSolver
        If no solver has the name, or it has no such setting, or the setting cannot take the value.
    """
    import otspec.solvers  # noqa: F401  registers what the package ships; late, because solvers import this module

    name, *assignments = spelling.split(":")
    if name not in _SOLVERS:
        raise UnknownSolver(f"no solver {name!r}; known: {', '.join(sorted(_SOLVERS))}")
    try:
        solver: Solver = _SOLVERS[name](**dict(_setting(_SOLVERS[name], assignment) for assignment in assignments))
    except ValueError as error:
        raise UnknownSolver(f"{spelling}: {error}") from error
    return solver


def available() -> tuple[SolverInfo, ...]:
    """Every registered solver with what it supports, by name."""
    import otspec.solvers  # noqa: F401  as in `get`

    return tuple(_describe(_SOLVERS[name]()) for name in sorted(_SOLVERS))


def _describe(solver: Solver) -> SolverInfo:
    summary = (type(solver).__doc__ or "").strip().partition("\n")[0]
    return SolverInfo(
        solver.name,
        summary,
        solver.exact,
        solver.schemes,
        settings_of(solver),
        solver.variants,
        missing(solver.packages),
    )


def settings_of(solver: Solver) -> dict[str, object]:
    """The settings of a solver by name."""
    return {entry.name: getattr(solver, entry.name) for entry in _fields(type(solver))}


def _fields(solver: type[Any]) -> tuple[Field[Any], ...]:
    return fields(solver)


def _setting(solver: type[Any], assignment: str) -> tuple[str, object]:
    """Name and value of a setting written as ``key=value``."""
    key, equals, text = assignment.partition("=")
    names = [entry.name for entry in _fields(solver)]
    if key not in names or not equals:
        raise UnknownSolver(f"{solver.name} has no setting {assignment!r}; known, as key=value: {', '.join(names)}")
    kind = get_type_hints(solver)[key]
    try:
        if kind is bool:
            return key, {"true": True, "false": False}[text.lower()]
        return key, kind(text)
    except (KeyError, ValueError) as error:
        raise UnknownSolver(f"{solver.name}: {key} takes {kind.__name__}, not {text!r}") from error

"""The solvers by name: those of this package, those that other packages bring, and those given by their class."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from numbers import Real
from typing import Any, cast, get_type_hints

from otspec.errors import UnknownSolver
from otspec.extras import missing, plugins
from otspec.solver import REGISTRY, Solver, check_solver_class, register, settings_of

ENTRY_POINTS = "otspec.solvers"
"""Group of entry points by which other packages make their solvers known: a name, and the class of a solver."""


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


def get(spelling: str) -> Solver:
    """The solver of that name; settings may follow, as in ``"max_flow:engine=networkx"``.

    A solver that is not registered goes by module and class: ``"package.module:Class"``, or with settings
    ``"package.module:Class:tol=1e-6"``.

    Parameters
    ----------
    spelling : str
        As `otspec.available` lists the names.

    Raises
    ------
    UnknownSolver
        If no solver has the name, or it has no such setting, or the setting cannot take the value.
    """
    if not isinstance(spelling, str):
        raise UnknownSolver(f"{spelling!r} is no name of a solver; `otspec.available` lists them")
    name, *assignments = spelling.split(":")
    if assignments and "=" not in assignments[0] and not _is_registered(name):
        solver_class = _imported(name, assignments.pop(0))
    else:
        solver_class = _registered(name)
    try:
        solver: Solver = solver_class(**dict(_setting(solver_class, assignment) for assignment in assignments))
    except ValueError as error:
        raise UnknownSolver(f"{spelling}: {error}") from error
    _check_limits(spelling, solver)
    return solver


def as_solver(chosen: object) -> Solver:
    """The solver of a spelling, or what is a solver already.

    Parameters
    ----------
    chosen : str or Solver

    Raises
    ------
    UnknownSolver
        If it is neither, or for the reasons of `get`, or a limit of it is no number >= 0.
    """
    if isinstance(chosen, str):
        return get(chosen)
    if isinstance(chosen, type) or not (callable(chosen) and (hasattr(chosen, "supports") or is_dataclass(chosen))):
        raise UnknownSolver(
            f'{chosen!r} is no solver; pass a name such as "interval", an instance such as otspec.solvers.LP(), '
            "or a list of them"
        )
    solver = cast(Solver, chosen)
    _named(type(solver), spelling_of(type(solver)))
    _check_limits(type(chosen).__name__, solver)
    return solver


def _check_limits(spelling: str, solver: Solver) -> None:
    for key, value in settings_of(solver).items():
        limit = key == "tol" or key.startswith("max_") or key.endswith("_s")
        if limit and not (isinstance(value, Real) and cast(float, value) >= 0):
            raise UnknownSolver(f"{spelling}: {key} = {value!r} is not a limit; take a number >= 0, or leave it out")


def available() -> tuple[SolverInfo, ...]:
    """Every registered solver with what it supports, by name.

    Examples
    --------
    >>> import otspec
    >>> [solver.name for solver in otspec.available()][:4]
    ['canonical', 'closed_form', 'distinct_drafters', 'global_resolution']
    """
    _register_all()
    return tuple(_describe(REGISTRY[name]()) for name in sorted(REGISTRY))


@cache
def _register_all() -> None:
    """Import what registers solvers: late, so that a problem can be stated without loading them all."""
    import otspec.solvers  # noqa: F401

    ours = {name for name, solver in REGISTRY.items() if solver.__module__.startswith("otspec.")}
    for name, solver in plugins(ENTRY_POINTS, taken=ours).items():
        if name in REGISTRY:  # by its own decorator, when its module was imported
            continue
        try:
            register(name)(solver)
        except TypeError as error:
            warnings.warn(f"the solver {name!r} of another package is ignored: {error}", stacklevel=2)


def _is_registered(name: str) -> bool:
    _register_all()
    return name in REGISTRY


def _registered(name: str) -> type[Any]:
    _register_all()
    if name not in REGISTRY:
        raise UnknownSolver(f"no solver {name!r}; known: {', '.join(sorted(REGISTRY))}, or package.module:Class")
    return REGISTRY[name]


def _imported(module: str, name: str) -> type[Any]:
    """The class of a solver that is given by where it is."""
    try:
        solver = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        file = f"; of a file in this folder write {module[:-3]}:{name}" if module.endswith(".py") else ""
        raise UnknownSolver(f"{module}:{name} cannot be imported as package.module:Class ({error}){file}") from error
    return _named(solver, f"{module}:{name}")


def spelling_of(kind: type[Any]) -> str:
    """The name of a class that nobody registered: ``package.module:Class``."""
    return f"{kind.__module__}:{kind.__qualname__}"


def _named(solver: type[Any], spelling: str) -> type[Any]:
    """The class of a solver, with a name as `register` gives it."""
    if not hasattr(solver, "name"):  # nobody registered it, or saw it before
        try:
            check_solver_class(solver)
        except (TypeError, AttributeError) as error:
            raise UnknownSolver(f"{spelling} is not a solver: {error}") from error
        solver.name = spelling
    return solver


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


@cache
def _types_of(solver: type[Any]) -> dict[str, Any]:
    """The types of its settings: to compile every annotation takes longer than to solve."""
    return get_type_hints(solver)


def _setting(solver: type[Any], assignment: str) -> tuple[str, object]:
    """Name and value of a setting written as ``key=value``."""
    key, equals, text = assignment.partition("=")
    names = [entry.name for entry in fields(solver)]
    if key not in names or not equals:
        raise UnknownSolver(f"{solver.name} has no setting {assignment!r}; known, as key=value: {', '.join(names)}")
    kind = _types_of(solver)[key]  # type: ignore[arg-type]  # classes are hashable, whatever their objects are
    try:
        if kind is bool:
            return key, {"true": True, "false": False}[text.lower()]
        return key, kind(text)
    except (KeyError, ValueError) as error:
        raise UnknownSolver(f"{solver.name}: {key} takes {kind.__name__}, not {text!r}") from error

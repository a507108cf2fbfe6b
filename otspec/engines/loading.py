"""Our functions in the places of an engine's own: only if they are asked for, and if they take the same arguments."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from otspec.errors import ProblemError


def asked(variable: str) -> bool:
    """Whether an environment variable asks for us: 1.  Nothing, or 0, does not.

    Raises
    ------
    ProblemError
        If it is anything else.
    """
    value = os.environ.get(variable, "")
    if value not in ("", "0", "1"):
        raise ProblemError(f"the environment has {variable}={value}; it is 1 to use otspec, and 0 or nothing not to")
    return value == "1"


def check_arguments(name: str, theirs: Callable[..., Any], ours: Callable[..., Any]) -> None:
    """Refuse to take the place of a function that is called differently.

    A version of an engine may lack the last of our arguments, if these have defaults.

    Raises
    ------
    ProblemError
        If the names of the engine's arguments, or their order, are not those that ours begin with; or ours needs more.
    """
    taken = inspect.signature(ours).parameters
    expected = list(inspect.signature(theirs).parameters)
    instead = f"otspec's takes {', '.join(taken)}; use a version that docs/device.md names, or leave otspec out"
    if unknown := [argument for argument in expected if argument not in taken]:
        raise ProblemError(
            f"{name} has arguments in this version that otspec does not know, {', '.join(unknown)}: {instead}"
        )
    if expected != list(taken)[: len(expected)]:
        raise ProblemError(f"{name} takes {', '.join(expected)} in this version, in another order; {instead}")
    rest = list(taken.values())[len(expected) :]
    if needed := [one.name for one in rest if one.default is inspect.Parameter.empty]:
        raise ProblemError(f"{name} has no {', '.join(needed)} in this version, which otspec's needs; {instead}")


def replacement(
    module: ModuleType, name: str, ours: Callable[..., Any], takes: Callable[..., bool] = lambda **_: True
) -> Callable[..., Any]:
    """Put a function in the place of a module's own, once; what it does not take goes to the other.

    It keeps the name and the signature of the other, defaults included: ours gets all of its arguments by name.

    Parameters
    ----------
    module : module
    name : str
        Of the function there.
    ours : callable
    takes : callable
        Called with all arguments by name: whether ours is meant for them.

    Returns
    -------
    callable
        What now has the name.
    """
    theirs = getattr(module, name)
    if getattr(theirs, "__otspec__", None) is ours:
        return theirs
    check_arguments(f"{module.__name__}.{name}", theirs, ours)
    signature = inspect.signature(theirs)

    @functools.wraps(theirs)
    def either(*positional: Any, **named: Any) -> Any:
        given = signature.bind(*positional, **named)
        given.apply_defaults()
        return ours(**given.arguments) if takes(**given.arguments) else theirs(*positional, **named)

    either.__otspec__ = ours  # type: ignore[attr-defined]
    setattr(module, name, either)
    return either

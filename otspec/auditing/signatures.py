"""The arguments that a callable of the user's takes, by position and by keyword."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from otspec.errors import ProblemError


class Arguments(NamedTuple):
    """Names of the arguments of a callable, in order."""

    required: list[str]
    """Those taken by position that have no default."""
    optional: list[str]
    """Those taken by position that have a default."""
    keywords: list[str]
    """Those taken by keyword only."""

    @property
    def positional(self) -> list[str]:
        """All that can be given by position."""
        return self.required + self.optional


def arguments_of(call: Callable[..., Any]) -> Arguments:
    """Read the signature of a callable.

    Raises
    ------
    ProblemError
        If it cannot be read, or an argument without a default has to be given by keyword.
    """
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError) as error:
        raise ProblemError(f"cannot read the signature of {call!r}; wrap it in a function ({error})") from error
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    found = Arguments([], [], [])
    for entry in parameters:
        if entry.kind in by_position:
            (found.required if entry.default is entry.empty else found.optional).append(entry.name)
        elif entry.kind is inspect.Parameter.KEYWORD_ONLY:
            found.keywords.append(entry.name)
            if entry.default is entry.empty:
                raise ProblemError(
                    f"the argument {entry.name} of {call!r} can be given by keyword only, and the audit calls by "
                    "position; wrap it in a function"
                )
    return found

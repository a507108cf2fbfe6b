"""Options that several commands have, each with the values that it can take: what is outside is refused before work."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import typer

from otspec.reporting.console import MOST

LARGEST_SEED = 2**62
"""Every generator of random numbers takes it, and the next ones."""


def count(*names: str, least: int = 1, **settings: Any) -> Any:
    """An option for a number of things, at least one unless 0 has a meaning of its own."""
    return typer.Option(*names, min=least, max=MOST, **settings)


def seed(**settings: Any) -> Any:
    """An option for a seed."""
    return typer.Option(min=0, max=LARGEST_SEED, **settings)


def temperature(**settings: Any) -> Any:
    """An option for a temperature: finite, 0 for greedy."""
    return typer.Option(callback=checked_temperature, **settings)


def mass(**settings: Any) -> Any:
    """An option for a probability above 0."""
    return typer.Option(callback=checked_mass, **settings)


def out_file(*names: str, **settings: Any) -> Any:
    """An option for a file to write, whose folder has to be there."""
    return typer.Option(*names, callback=_writable, **settings)


CHECKED: dict[str, Callable[..., Any]] = {"seed": seed, "temperature": temperature}
"""Options that are checked before work wherever they occur, by name."""


def of_settings(settings: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a settings class, in place of its ``**settings``.

    Each field of the dataclass whose metadata has a ``help`` text becomes an option of its name, type and default, so
    that a setting is spelled in its class only.

    Parameters
    ----------
    settings : type
        A dataclass.
    """

    def give(command: Callable[..., None]) -> Callable[..., None]:
        types = get_type_hints(settings) | get_type_hints(command, include_extras=True)
        parameters = [
            one.replace(annotation=types[one.name])
            for one in inspect.signature(command).parameters.values()
            if one.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        for one in fields(settings):
            if summary := one.metadata.get("help"):
                make: Callable[..., Any] = CHECKED.get(one.name, typer.Option)
                option = make(default=one.default, help=summary)
                kind = inspect.Parameter.KEYWORD_ONLY
                parameters.append(inspect.Parameter(one.name, kind, default=option, annotation=types[one.name]))
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        setattr(command, "__signature__", inspect.Signature(parameters))  # noqa: B010  # mypy knows no such attribute
        return command

    return give


def numbers_of(option: str, text: str, check: Callable[[float], float | None]) -> list[float]:
    """Numbers from a list such as ``1,0.6``, each of them checked; what is there twice counts once.

    Raises
    ------
    typer.BadParameter
        If an item is no number, or does not pass.
    """
    values = []
    for item in text.split(","):
        try:
            values.append(float(item))
            check(values[-1])
        except ValueError as error:
            message = f"{item.strip()!r} is not a number; write a list such as 1,0.6"
            raise typer.BadParameter(message, param_hint=option) from error
        except typer.BadParameter as error:
            raise typer.BadParameter(error.message, param_hint=option) from error
    return list(dict.fromkeys(values))


def checked_temperature(value: float | None) -> float | None:
    """A temperature, if it is one; refused otherwise."""
    if value is not None and not 0 <= value < math.inf:
        raise typer.BadParameter(f"{value:g}; a temperature is finite and >= 0 (0 means greedy)")
    return value


def checked_mass(value: float | None) -> float | None:
    """A probability above 0, if it is one; refused otherwise."""
    if value is not None and not 0 < value <= 1:
        raise typer.BadParameter(f"{value:g}; it is a probability in (0, 1]")
    return value


def _writable(path: Path | None) -> Path | None:
    if path is None:
        return None
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder; name a file")
    if not path.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {path.parent}; make it first, or name a file elsewhere")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise typer.BadParameter(f"{path} cannot be written; name a file elsewhere")
    return path

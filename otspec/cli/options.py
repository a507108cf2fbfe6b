"""Options that several commands have, each with the values that it can take: what is outside is refused before work."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from otspec.locking import Lock
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


def probability(**settings: Any) -> Any:
    """An option for a probability."""
    return typer.Option(callback=checked_probability, **settings)


def out_file(*names: str, **settings: Any) -> Any:
    """An option for a file to write, whose folder has to be there."""
    return typer.Option(*names, callback=_writable, **settings)


def holding(command: Callable[..., None]) -> Callable[..., None]:
    """Let no other command write to `out`, a file or a folder, before this one has ended."""

    @wraps(command)
    def held(*arguments: Any, **settings: Any) -> None:
        out: Path = settings["out"]
        out.parent.mkdir(parents=True, exist_ok=True)
        lock = Lock.of_file(out)
        try:
            command(*arguments, **settings)
        finally:
            lock.release()

    return held


def words(text: str) -> list[str]:
    """The items of a list, without the spaces around them."""
    return [word for item in text.split(",") if (word := item.strip())]


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


def checked_probability(value: float | None) -> float | None:
    """A probability, if it is one; refused otherwise."""
    if value is not None and not 0 <= value <= 1:
        raise typer.BadParameter(f"{value:g} is no probability in [0, 1]")
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

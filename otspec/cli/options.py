"""Options that several commands have, each with the values that it can take: what is outside is refused before work."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

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
    return typer.Option(callback=_temperature, **settings)


def mass(**settings: Any) -> Any:
    """An option for a probability above 0."""
    return typer.Option(callback=_mass, **settings)


def out_file(*names: str, **settings: Any) -> Any:
    """An option for a file to write, whose folder has to be there."""
    return typer.Option(*names, callback=_writable, **settings)


def _temperature(value: float | None) -> float | None:
    if value is not None and not 0 <= value < math.inf:
        raise typer.BadParameter(f"{value:g}; a temperature is finite and >= 0 (0 means greedy)")
    return value


def _mass(value: float | None) -> float | None:
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

"""Parts of a command line: options from settings, lists, files to write; faults are refused before any work."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from otspec.errors import DataError, ProblemError
from otspec.locking import Lock
from otspec.reporting.console import MOST
from otspec.settings import Mass, Probability, Range, Temperature, range_of

ARGUMENT = typer.Argument()
"""Marks a field that has no name on the command line: ``file: Annotated[str, ARGUMENT]``."""


def of_range(range_: Range | None, *names: str, **settings: Any) -> Any:
    """An option that takes the numbers of a range; of those that count things, `MOST` at most."""
    if range_ is None:
        return typer.Option(*names, **settings)
    return typer.Option(*names, parser=reading(range_), metavar="<int>" if range_.whole else "<float>", **settings)


def reading(range_: Range) -> Callable[[Any], float]:
    """A function that reads a number of the range, and refuses all else."""
    check, kind = checking(range_), int if range_.whole else float

    def read(text: Any) -> float:
        try:
            value = kind(text)
        except ValueError:
            raise typer.BadParameter(f"{text!r}; {range_.rule}") from None
        if range_.whole and range_.most == math.inf and value > MOST:
            raise typer.BadParameter(f"{text} is more than {MOST:,}, the most there can be")
        return check(value)

    return read


def checking(range_: Range) -> Callable[[Any], Any]:
    """A function that returns what is in the range, or None, and refuses all else."""

    def check(value: float | None) -> float | None:
        if value is not None and value not in range_:
            raise typer.BadParameter(f"{value if range_.whole else f'{value:g}'}; {range_.rule}")
        return value

    return check


def _range(kind: Any) -> Range:
    found = range_of(kind)
    assert found is not None
    return found


checked_temperature, checked_mass, checked_probability = (
    checking(_range(kind)) for kind in (Temperature, Mass, Probability)
)


def holding(command: Callable[..., None]) -> Callable[..., None]:
    """Let no other command write to `out`, a file or a folder, before this one has ended."""

    @wraps(command)
    def held(request: Any) -> None:
        out: Path = request.out
        out.parent.mkdir(parents=True, exist_ok=True)
        lock = Lock.of_file(out)
        try:
            command(request)
        finally:
            lock.release()

    return held


def words(text: str) -> list[str]:
    """The items of a list, without the spaces around them."""
    return [word for item in text.split(",") if (word := item.strip())]


def numbers_of(option: str, text: str, check: Callable[[float], float | None]) -> list[float]:
    """Numbers from a list such as ``1,0.6``, each of them checked; what is there twice counts once."""
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


def check_apart(read: Iterable[Path | None], **written: Path | None) -> None:
    """Raise if a file is to be written over one that is read, or over another, by the names of the options."""
    taken = {path.resolve(): "what is read" for path in read if path is not None}
    for name, path in written.items():
        if path is not None and taken.setdefault(path.resolve(), f"--{name}") != f"--{name}":
            over = taken[path.resolve()]
            raise ProblemError(f"--{name} {path} would be written over {over}; name another file")


def check_new(out: Path) -> None:
    """Raise if hours of work cannot go to this file, or would replace others."""
    if out.suffix != ".safetensors":
        raise DataError(f"{out} is no safetensors file; give --out a name that ends in .safetensors")
    if out.exists():
        raise DataError(f"{out} is there already; delete it, or give --out another name")


def check_one_tokenizer(models: Any, target: str, draft: object) -> None:
    """Raise if what reads the target's tokens as its own has another tokenizer."""
    if models.matching is not None:
        raise ProblemError(
            f"{draft} has another tokenizer than {target}, whose tokens it would take for its own; pass a draft model "
            "that shares it"
        )


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


OutFile = Annotated[Path, _writable]
"""A file to write, whose folder has to be there."""

"""Files that commands save for later ones: JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from otspec.errors import DataError

T = TypeVar("T")


def read_saved(path: Path | str, what: str, command: str, of: Callable[[Any], T]) -> T:
    """What a file holds.

    Parameters
    ----------
    path : Path or str
    what : str
        What the file is, for errors.
    command : str
        The command that writes it to what ``--out`` names.
    of : callable
        Makes it of the record.

    Raises
    ------
    DataError
        If there is no such file, or it is none of these.
    """
    if not Path(path).is_file():
        raise DataError(f"there is no file {path}; `{command} --out {path}` writes it")
    try:
        return of(json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{path} is no {what}: {reason}; write one by `{command}`") from error

"""How the commands print: results to stdout, progress to stderr, lists and tables in one way."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from otspec.extras import installed

if TYPE_CHECKING:
    from rich.progress import Progress

errors = Console(stderr=True)
# No markup: what we print holds brackets of its own, as in [key, eq. (1)] or otspec-toolkit[solvers].
console = Console(markup=False)
if not console.is_terminal and "COLUMNS" not in os.environ:
    console = Console(markup=False, width=160)  # a file or a pipe has no width; tables are then drawn whole


MOST = 1_000_000
"""Drafts, paths or tokens that a user can request: beyond any vocabulary, and arrays of them still fit."""
LONGEST = len(str(MOST)) + 1
"""Digits that show whether a number is larger; Python refuses to read thousands of them."""


def progress_bar() -> Progress:
    """A bar that leaves the screen when it is done; nothing where stderr is no terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal)


def progress_as_ours() -> None:
    """Let transformers, if it is there, show bars where we do: not where stderr is no terminal."""
    if not errors.is_terminal and installed("transformers"):
        from transformers.utils import logging

        logging.disable_progress_bar()


def numbers(option: str, text: str, words: dict[str, int] | None = None, repeated: bool = False) -> list[int]:
    """Positive integers from a list such as ``10,100``; `words` are further values by name.

    Without `repeated`, duplicates count once.

    Raises
    ------
    typer.BadParameter
        If an item is neither.
    """
    known = words or {}
    values = []
    for item in text.split(","):
        word = item.strip()
        if word in known:
            values.append(known[word])
        elif not word.isdecimal() or int(word[:LONGEST]) == 0:
            more = "".join(f" or {name}" for name in known)
            raise typer.BadParameter(
                f"{word!r} is not a positive number{more}; write a list such as 10,100", param_hint=option
            )
        elif int(word[:LONGEST]) > MOST:
            raise typer.BadParameter(f"{word} is more than {MOST:,}, the most there can be", param_hint=option)
        else:
            values.append(int(word))
    return values if repeated else list(dict.fromkeys(values))

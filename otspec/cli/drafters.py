"""Drafters by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zipfile import BadZipFile

import typer

from otspec.cli import options
from otspec.cli.names import DRAFTERS, listed
from otspec.errors import DataError, ProblemError

if TYPE_CHECKING:
    from otspec.laws import FloatArray, IntArray

DRAFTER_HELP = f"{listed(DRAFTERS)}, with a number of tokens behind a colon if need be, or a draft model"

Drafter = Annotated[str | None, typer.Option(help=f"What drafts: {DRAFTER_HELP}.", show_default="the draft model")]
DrafterTokens = Annotated[
    int | None, options.count(help="How many tokens --drafter keeps.", show_default="a quarter of them")
]
Frequencies = Annotated[
    Path | None,
    typer.Option(
        help="How often each token occurs, for --drafter fr: a .npy file with one count per token id, or an .npz file "
        "with them as counts.",
        show_default="those of the shipped pair's training text, for its draft model",
    ),
]


def asked_of_drafter(name: str | None, count: int | None, path: Path | None) -> dict[str, Any]:
    """What the options say, by their names.

    Raises
    ------
    ProblemError
        If options are given that mean nothing without a drafter.
    """
    given = {"drafter": name, "drafter_tokens": count, "frequencies": path}
    asked = {option: value for option, value in given.items() if value is not None}
    if name is None and asked:
        option = f"--{next(iter(asked)).replace('_', '-')}"
        raise ProblemError(f"{option} says what --drafter fr keeps; pass that too, or leave it out")
    return asked


def read_counts(path: Path | None) -> IntArray | FloatArray | None:
    """Frequencies of tokens, not checked yet, which `frequency_prune` does; None without a file.

    Raises
    ------
    DataError
        If the file holds none.
    """
    if path is None:
        return None
    import numpy as np

    try:
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            counts: IntArray = found if isinstance(found, np.ndarray) else found["counts"]
            return counts
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise DataError(
            f"{path} cannot be read as token frequencies ({error}); pass a .npy file of one count per token id, or an "
            ".npz file with them as counts"
        ) from error

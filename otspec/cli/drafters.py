"""Drafters of a restricted vocabulary, by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from zipfile import BadZipFile

import typer

from otspec.cli import options
from otspec.cli.names import DRAFTERS, listed
from otspec.errors import DataError, ProblemError

if TYPE_CHECKING:
    from otspec.laws import FloatArray, IntArray

SHARE = 4
"""One token in so many is kept where nothing else is said: 32 768 of 128 256 in [zhao2025frspec]."""

Drafter = Annotated[
    str | None,
    typer.Option(help=f"Draft from some of the tokens only: {listed(DRAFTERS)}, the most frequent ones (FR-Spec)."),
]
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


class Restricted(NamedTuple):
    """What a drafter keeps."""

    tokens: IntArray
    """Ascending."""
    said: dict[str, Any]
    """How it was asked for, by the names of the options."""


def restricted(name: str | None, count: int | None, path: Path | None, drafts: Sequence[str]) -> Restricted | None:
    """The tokens that the drafter of that name keeps; None without one.

    Parameters
    ----------
    name, count, path
        What the options say.
    drafts : sequence of str
        Names of the draft models.

    Raises
    ------
    ProblemError
        If there is no such drafter, or options are given that mean nothing without one, or it keeps more tokens than
        there are.
    DataError
        If there are no frequencies.
    """
    if name is None:
        if count is not None or path is not None:
            given = "--drafter-tokens" if count is not None else "--frequencies"
            raise ProblemError(f"{given} says what --drafter fr keeps; pass that too, or leave it out")
        return None
    if name not in DRAFTERS:
        raise ProblemError(f"no drafter {name!r}; known: {', '.join(DRAFTERS)}")
    import numpy as np

    from otspec.vocab import frequency_prune

    counts = _frequencies(path, drafts)
    kept = max(counts.size // SHARE, 1) if count is None else count
    return Restricted(np.sort(frequency_prune(counts, kept)), {"drafter": name, "drafter_tokens": kept})


def _frequencies(path: Path | None, drafts: Sequence[str]) -> IntArray | FloatArray:
    """Not checked yet, which `frequency_prune` does."""
    import numpy as np

    if path is None:
        from otspec.decode import shipped

        if set(drafts) != {"shipped"}:
            raise DataError(
                f"no token frequencies for {', '.join(drafts) or 'a method without a draft model'}; pass --frequencies "
                "FILE, such as np.save writes of np.bincount(tokens of a text, minlength=V)"
            )
        return shipped.frequencies()
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

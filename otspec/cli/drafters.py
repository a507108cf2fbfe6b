"""Drafters by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from zipfile import BadZipFile

import typer

from otspec import pickles
from otspec.cli import options
from otspec.cli.names import DRAFTERS, listed
from otspec.errors import DataError, ProblemError

if TYPE_CHECKING:
    from otspec.decode.methods.drafting import DrafterRequest
    from otspec.decode.pair.loading import Models
    from otspec.laws import FloatArray, IntArray

DRAFTER_HELP = (
    f"{listed(DRAFTERS)}, with a number behind a colon if need be, or a draft model; +fr, +pa-fr, +dynaspec "
    "or +dynaspec-f behind it shortens its head, and by +prompt-lookup one path of each tree is copied from the text"
)

Drafter = Annotated[str | None, typer.Option(help=f"The drafter: {DRAFTER_HELP}.", show_default="the draft model")]


@dataclass(frozen=True)
class DrafterFiles:
    """What some drafters are made from."""

    frequencies: Annotated[
        Path | None,
        typer.Option(
            help="How often each token occurs, for --drafter fr and pa-fr: a .npy file with one count per token id, or "
            "an .npz file with them as counts.",
            show_default="those of the shipped pair's training text, for its draft model",
        ),
    ] = None
    router: Annotated[
        Path | None,
        typer.Option(
            help="The file that `otspec router` made for the draft model, for --drafter dynaspec.",
            show_default="that of the shipped draft model, for it",
        ),
    ] = None
    affinity: Annotated[
        Path | None,
        typer.Option(
            help="The file that `otspec affinity` made, for --drafter rdk and the draft model as it is.",
            show_default="that of the shipped draft model with another tokenizer, which then drafts",
        ),
    ] = None

    def check(self, names: Sequence[str]) -> dict[str, Any]:
        """The options that are given, for drafters of these names; no name is the draft model as it is.

        Raises
        ------
        ProblemError
            If options are given that none of the drafters has a use for.
        """
        values = asdict(self)
        asked = {option: values[option] for option in NEEDED_FOR if values.get(option) is not None}
        words = {word for name in names for word in re.split("[:+,]", name)}
        for option in asked:
            if words.isdisjoint(NEEDED_FOR[option]):
                by = " or ".join(NEEDED_FOR[option])
                named = option.replace("_", "-")
                raise ProblemError(f"--{named} is for --drafter {by}; pass that too, or leave it out")
        return ({"drafter": ", ".join(names)} if names else {}) | asked

    def request(self, models: Models, target: str, draft: str, count: int | None = None) -> DrafterRequest:
        """What drafters by name are made from."""
        from otspec.decode.methods.drafting import DrafterRequest

        return DrafterRequest(models, target, draft, count, read_counts(self.frequencies), self.router, self.affinity)


@dataclass(frozen=True)
class DrafterOptions(DrafterFiles):
    """A drafter by name, and what it is made from."""

    drafter: Drafter = None
    drafter_tokens: Annotated[
        int | None,
        options.count(
            help="How many tokens --drafter fr keeps, how many pa-fr keeps at first, or how many clusters dynaspec "
            "keeps.",
            show_default="a quarter of them, or 3 of 8, or as the router says",
        ),
    ] = None


NEEDED_FOR = {
    "drafter_tokens": ("fr", "pa-fr", "dynaspec", "dynaspec-f"),
    "frequencies": ("fr", "pa-fr"),
    "router": ("dynaspec", "dynaspec-f"),
    "affinity": ("rdk",),
}
"""The options that only some drafters have a use for."""


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
        with path.open("rb") as file, pickles.refused():
            found = np.load(file, allow_pickle=False)
            counts: IntArray = found if isinstance(found, np.ndarray) else found["counts"]
            return counts
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise DataError(
            f"{path} cannot be read as token frequencies ({error}); pass a .npy file of one count per token id, or an "
            ".npz file with them as counts"
        ) from error

"""Drafters by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from otspec import pickles
from otspec.errors import DataError, ProblemError
from otspec.settings import Count

if TYPE_CHECKING:
    from otspec.decode.methods.drafting import DrafterRequest
    from otspec.decode.pair.loading import Models
    from otspec.laws import FloatArray, IntArray


@dataclass(frozen=True)
class DrafterFiles:
    """What some drafters are made from."""

    frequencies: Path | None = None
    """How often each token occurs, for --drafter fr and pa-fr: a .npy file with one count per token id, or an .npz
    file with them as counts; by default those of the shipped pair's training text, for its draft model."""
    router: Path | None = None
    """The file that `otspec router` made for the draft model, for --drafter dynaspec; by default that of the
    shipped draft model, for it."""
    affinity: Path | None = None
    """The file that `otspec affinity` made, for --drafter rdk and the draft model as it is; by default that of the
    shipped draft model with another tokenizer, which then drafts."""

    def check(self, names: Sequence[str]) -> dict[str, Any]:
        """The options that are given, for drafters of these names; no name is the draft model as it is."""
        values = asdict(self)
        needed = {option: values[option] for option in NEEDED_FOR if values.get(option) is not None}
        words = {word for name in names for word in re.split("[:+,]", name)}
        for option in needed:
            if words.isdisjoint(NEEDED_FOR[option]):
                by = " or ".join(NEEDED_FOR[option])
                named = option.replace("_", "-")
                raise ProblemError(f"--{named} is for --drafter {by}; pass that too, or leave it out")
        return ({"drafter": ", ".join(names)} if names else {}) | needed

    def request(self, models: Models, target: str, draft: str, count: int | None = None) -> DrafterRequest:
        """What drafters by name are made from."""
        from otspec.decode.methods.drafting import DrafterRequest

        return DrafterRequest(models, target, draft, count, read_counts(self.frequencies), self.router, self.affinity)


@dataclass(frozen=True)
class DrafterOptions(DrafterFiles):
    """A drafter by name, and what it is made from."""

    drafter: str | None = None
    """The drafter: {DRAFTER_HELP}; by default the draft model."""
    drafter_tokens: Count | None = None
    """How many tokens --drafter fr keeps, how many pa-fr keeps at first, or how many clusters dynaspec keeps; by
    default a quarter of them, or 3 of 8, or the router's own number."""


NEEDED_FOR = {
    "drafter_tokens": ("fr", "pa-fr", "dynaspec", "dynaspec-f"),
    "frequencies": ("fr", "pa-fr"),
    "router": ("dynaspec", "dynaspec-f"),
    "affinity": ("rdk",),
}
"""The options that only some drafters have a use for."""


def read_counts(path: Path | None) -> IntArray | FloatArray | None:
    """Frequencies of tokens, which `frequency_prune` checks; None without a file."""
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

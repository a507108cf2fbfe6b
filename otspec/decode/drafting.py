"""What drafts, by the names that commands have for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from otspec.decode import shipped
from otspec.decode.models.loading import SHIPPED, Models, with_named_draft
from otspec.errors import DataError, ProblemError
from otspec.vocab import frequency_prune

SHARE = 4
"""One token in so many is kept where nothing else is said: 32 768 of 128 256 in [zhao2025frspec]."""


@dataclass(frozen=True, eq=False)
class Given:
    """What the names may need beside the models."""

    models: Models
    draft: str
    """What the user calls the draft model, or several."""
    count: int | None = None
    """How many tokens are kept; by default one in `SHARE`."""
    frequencies: Any = None
    """How often each token occurs; by default those of the shipped pair, for its draft model."""


@dataclass(frozen=True, eq=False)
class Drafting:
    """A draft model in its place, and how it is asked."""

    models: Models
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of `otspec.generate`."""
    said: Mapping[str, Any] = field(default_factory=dict)
    """The same in the words of the command."""


def drafting(name: str, given: Given) -> Drafting:
    """What drafts by that name.

    Parameters
    ----------
    name : str
        One of `DRAFTERS`, with a count behind a colon if need be (``"fr:512"``); or a draft model: ``"shipped"``, a
        folder, or a name on the hub.
    given : Given

    Raises
    ------
    ProblemError
        If the count is none, or more than there are tokens; or the model cannot draft for the target.
    DataError
        If frequencies are needed and not given, or there is no such drafter or model.
    """
    word, colon, number = name.partition(":")
    if word not in DRAFTERS:
        if name != SHIPPED and "/" not in name and not Path(name).is_dir():
            raise DataError(
                f"no drafter {name!r}; known: {', '.join(DRAFTERS)}, and draft models: {SHIPPED}, a folder, or "
                "owner/name on the hub"
            )
        return Drafting(with_named_draft(given.models, name), {}, {"drafter": name})
    if colon:
        if not number.isdecimal() or not int(number):
            raise ProblemError(f"{name!r} keeps {number!r} tokens; write a number from 1 on behind the colon")
        given = Given(given.models, given.draft, int(number), given.frequencies)
    return DRAFTERS[word](given)


def _frequent(given: Given) -> Drafting:
    """FR-Spec: the most frequent tokens alone."""
    counts = _frequencies(given)
    kept = max(counts.size // SHARE, 1) if given.count is None else given.count
    tokens = np.sort(frequency_prune(counts, kept))
    return Drafting(given.models, {"draft_tokens": tokens}, {"drafter": "fr", "drafter_tokens": kept})


def _frequencies(given: Given) -> Any:
    if given.frequencies is not None:
        return np.asarray(given.frequencies)
    if given.draft != SHIPPED:
        raise DataError(
            f"no token frequencies for {given.draft or 'a method without a draft model'}; pass --frequencies FILE, "
            "such as np.save writes of np.bincount(tokens of a text, minlength=V)"
        )
    return shipped.frequencies()


DRAFTERS: Mapping[str, Callable[[Given], Drafting]] = {"fr": _frequent}
"""By name."""

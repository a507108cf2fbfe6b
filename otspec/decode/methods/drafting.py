"""What drafts, by the names that commands have for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from otspec.decode import shipped
from otspec.decode.drafters.shortlists.router import Router
from otspec.decode.drafters.shortlists.shortlists import Budget, Frequent
from otspec.decode.pair.loading import SHIPPED, Models, with_draft, with_named_draft
from otspec.errors import DataError, ProblemError
from otspec.vocab import frequency_prune, load_affinity

SHARE = 4
"""One token in so many is kept where nothing else is said: 32 768 of 128 256 in [zhao2025frspec]."""


@dataclass(frozen=True, eq=False)
class Given:
    """What the names may need beside the models."""

    models: Models
    target: str
    """What the user calls it."""
    draft: str
    """What the user calls the draft model, or several."""
    count: int | None = None
    """How many tokens, or clusters of them, are kept."""
    frequencies: Any = None
    """How often each token occurs; by default those of the shipped pair, for its draft model."""
    router: Path | None = None
    """A file of `otspec router`; by default that of the shipped draft model, for it."""
    affinity: Path | None = None
    """A file of `otspec affinity`; by default that of the shipped pair."""


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
        given = replace(given, count=int(number))
    return DRAFTERS[word](given)


def _frequent(given: Given) -> Drafting:
    """FR-Spec: the most frequent tokens alone."""
    counts = _frequencies(given)
    kept = max(counts.size // SHARE, 1) if given.count is None else given.count
    tokens = np.sort(frequency_prune(counts, kept))
    return Drafting(given.models, {"draft_tokens": tokens}, {"drafter": "fr", "drafter_tokens": kept})


def _fewer_by_depth(given: Given) -> Drafting:
    """PA-FR: the most frequent tokens, fewer of them the deeper a slot is."""
    counts = _frequencies(given)
    most = 3 * counts.size // 8 if given.count is None else given.count
    shortlist = Frequent(frequency_prune(counts, most), Budget(most, falling=1))
    return Drafting(given.models, {"draft_shortlist": shortlist}, {"drafter": "pa-fr", "drafter_tokens": most})


def _routed(given: Given) -> Drafting:
    """DynaSpec: clusters of tokens that a router chooses by the context."""
    if given.router is None and given.draft != SHIPPED:
        raise DataError(f"no router for {given.draft or NO_DRAFT}; pass --router FILE, which `otspec router` makes")
    router = Router.load(shipped.FOLDER / shipped.ROUTER if given.router is None else given.router)
    if given.count is not None:
        router = router.within(replace(router.budget, most=given.count, least=min(router.budget.least, given.count)))
    said = {"drafter": "dynaspec", "drafter_clusters": router.budget.most}
    return Drafting(given.models, {"draft_shortlist": router}, said)


def _fed(given: Given) -> Drafting:
    """The shipped draft model that hears at every token what the shipped target has in mind."""
    if given.target != SHIPPED:
        raise DataError(
            f"no draft model that hears {given.target} comes with the package; `otspec train eagle` trains one, which "
            "is passed as --draft FOLDER"
        )
    draft = shipped.fed(given.models.target.dtype)
    return Drafting(with_draft(given.models, draft, given.models.tokenizer), {}, {"drafter": "fed"})


def _foreign(given: Given) -> Drafting:
    """TLI: the shipped target's draft model with another tokenizer, on the tokens in common."""
    if given.target != SHIPPED:
        raise DataError(
            f"no draft model with another tokenizer comes with {given.target}; pass one as --draft FOLDER: that its "
            "tokenizer is another is seen, and TLI then needs no name"
        )
    other = shipped.foreign(given.models.target.dtype)
    return Drafting(with_draft(given.models, other.draft, other.tokenizer), {}, {"drafter": "tli"})


def _redistributed(given: Given) -> Drafting:
    """RDK: the same, or the draft model given, with its mass moved to other tokens."""
    if given.affinity is not None:
        return Drafting(given.models, {"draft_kernel": load_affinity(given.affinity)}, {"drafter": "rdk"})
    other = _foreign(given)
    kernel = load_affinity(shipped.FOLDER / shipped.FOREIGN / shipped.AFFINITY)
    return replace(other, settings={"draft_kernel": kernel}, said={"drafter": "rdk"})


def _frequencies(given: Given) -> Any:
    if given.frequencies is not None:
        return np.asarray(given.frequencies)
    if given.draft != SHIPPED:
        raise DataError(
            f"no token frequencies for {given.draft or NO_DRAFT}; pass --frequencies FILE, such as np.save writes of "
            "np.bincount(tokens of a text, minlength=V)"
        )
    return shipped.frequencies()


NO_DRAFT = "a method without a draft model"

DRAFTERS: Mapping[str, Callable[[Given], Drafting]] = {
    "fr": _frequent,
    "pa-fr": _fewer_by_depth,
    "dynaspec": _routed,
    "fed": _fed,
    "tli": _foreign,
    "rdk": _redistributed,
}
"""By name."""

"""Drafters, by the names that commands have for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from otspec.decode import shipped
from otspec.decode.drafters.shortlists.router import Router
from otspec.decode.drafters.shortlists.shortlists import Budget, Frequent
from otspec.decode.models.context import vocabulary
from otspec.decode.models.passes.packed import pack
from otspec.decode.pair.loading import SHIPPED, Models, with_draft, with_named_draft
from otspec.errors import DataError, ProblemError
from otspec.vocab import frequency_prune, load_affinity

SHARE = 4
"""One token in so many is kept by default: 32 768 of 128 256 in [zhao2025frspec]."""


BESIDE = re.compile(r"[+,] ?prompt-lookup(?::(\d+))?$")
"""What is written behind a drafter beside which one path is copied from the text."""
SHORT = re.compile(r"\+((?:fr|pa-fr|dynaspec|dynaspec-f)(?::.*)?)$")
"""What is written behind a draft model of which a head for some tokens only is computed."""
COUNTED = ("fr", "pa-fr", "dynaspec", "dynaspec-f")
"""Drafters of so many tokens or clusters."""
COPIED = 8
"""Tokens of that path at most, by default."""


@dataclass(frozen=True, eq=False)
class DrafterRequest:
    """What drafters by name are made from."""

    models: Models
    target: str
    """The user's name for it."""
    draft: str
    """The user's name for the draft model, or for several."""
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
    """A draft model in its place, and the settings of its drafts."""

    models: Models
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of `otspec.generate`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The same as options of the command."""


def drafting(name: str, request: DrafterRequest) -> Drafting:
    """The drafter of that name.

    Parameters
    ----------
    name : str
        One of `DRAFTERS`, with a count behind a colon if need be (``"fr:512"``); or a draft model: ``"shipped"``, a
        folder, or a name on the hub.  With ``+prompt-lookup`` behind it one path of each tree is copied from the text,
        of at most 8 tokens, or as many as follow a colon (``"eagle+prompt-lookup:4"``); a comma does for the plus.  A
        drafter that shortens the head may stand behind one with a model of its own (``"eagle+fr:512"``).
    request : DrafterRequest

    Raises
    ------
    ProblemError
        If the count is none, or more than there are tokens; or the model cannot draft for the target.
    DataError
        If frequencies are needed and not given, or there is no such drafter or model.
    """
    if (copied := BESIDE.search(name)) is not None:
        found = drafting(name[: copied.start()], request)
        length = int(copied[1] or COPIED)
        settings, options = {**found.settings, "prompt_lookup": length}, {**found.options, "prompt_lookup": length}
        return replace(found, settings=settings, options=options)
    if (short := SHORT.search(name)) is not None:
        model = drafting(name[: short.start()], request)
        own = drafting(short[1], replace(request, models=model.models, draft=name[: short.start()]))
        return replace(own, settings={**model.settings, **own.settings}, options={**own.options, "drafter": name})
    word, colon, number = name.partition(":")
    if word not in DRAFTERS:
        if name != SHIPPED and "/" not in name and not Path(name).is_dir():
            raise DataError(
                f"no drafter {name!r}; known: {', '.join(DRAFTERS)}, and draft models: {SHIPPED}, a folder, or "
                "owner/name on the hub"
            )
        return Drafting(with_named_draft(request.models, name), {}, {"drafter": name})
    if colon:
        if word not in COUNTED:
            raise ProblemError(f"{name!r} has a number, which is for {', '.join(COUNTED)}; write {word!r}")
        if not number.isdecimal() or not int(number):
            raise ProblemError(f"{name!r} keeps {number!r} tokens; write a number from 1 on behind the colon")
        request = replace(request, count=int(number))
    return DRAFTERS[word](request)


def _frequent(request: DrafterRequest) -> Drafting:
    """FR-Spec: the most frequent tokens alone."""
    counts = _frequencies(request)
    size = max(counts.size // SHARE, 1) if request.count is None else request.count
    tokens = np.sort(frequency_prune(counts, size))
    return Drafting(request.models, {"draft_tokens": tokens}, {"drafter": "fr", "drafter_tokens": size})


def _fewer_by_depth(request: DrafterRequest) -> Drafting:
    """PA-FR: the most frequent tokens, fewer of them the deeper a node is."""
    counts = _frequencies(request)
    most = 3 * counts.size // 8 if request.count is None else request.count
    shortlist = Frequent(frequency_prune(counts, most), Budget(most, falling=1))
    return Drafting(request.models, {"draft_shortlist": shortlist}, {"drafter": "pa-fr", "drafter_tokens": most})


def _routed(request: DrafterRequest, falling: bool = True) -> Drafting:
    """DynaSpec: clusters of tokens that a router chooses by the context, fewer the deeper a node is, or as many."""
    place = shipped.FOLDER / (shipped.ROUTER if request.draft == SHIPPED else f"{shipped.EAGLE}/{shipped.ROUTER}")
    if request.router is None and not _is_pairs(request):
        raise DataError(f"no router for {request.draft or NO_DRAFT}; pass --router FILE, which `otspec router` makes")
    router = Router.load(place if request.router is None else request.router)
    if not falling:
        router = router.within(max(router.count // SHARE, 1) if request.count is None else request.count)
    elif request.count is not None:
        router = router.within(
            replace(router.budget, most=request.count, least=min(router.budget.least, request.count))
        )
    options = {"drafter": "dynaspec" if falling else "dynaspec-f", "drafter_clusters": router.budget.most}
    return Drafting(request.models, {"draft_shortlist": router}, options)


def _is_pairs(request: DrafterRequest) -> bool:
    """Whether a draft model is of the shipped pair, in whose tokens."""
    return request.draft == SHIPPED or (request.target == SHIPPED and request.draft == shipped.EAGLE)


def _own(name: str, request: DrafterRequest) -> Drafting:
    """A draft model that reads the target's hidden states, as it comes with the package for that target."""
    draft = shipped.drafter(name, request.models.target)
    models = with_draft(request.models, draft, request.models.tokenizer)
    pack(draft)
    return Drafting(models, {}, {"drafter": name})


def _foreign(request: DrafterRequest) -> Drafting:
    """TLI: the shipped target's draft model with another tokenizer, on the tokens in common."""
    if request.target != SHIPPED:
        raise DataError(
            f"no draft model with another tokenizer comes with {request.target}; pass one as --draft FOLDER: its "
            "other tokenizer is recognised, and TLI then needs no name"
        )
    other = shipped.foreign(request.models.target.dtype)
    return Drafting(with_draft(request.models, other.draft, other.tokenizer), {}, {"drafter": "tli"})


def _redistributed(request: DrafterRequest) -> Drafting:
    """RDK: the same, or the draft model as it is, with its mass moved to other tokens."""
    if request.affinity is not None:
        return Drafting(request.models, {"draft_kernel": load_affinity(request.affinity)}, {"drafter": "rdk"})
    other = _foreign(request)
    kernel = load_affinity(shipped.FOLDER / shipped.FOREIGN / shipped.AFFINITY)
    return replace(other, settings={"draft_kernel": kernel}, options={"drafter": "rdk"})


def _frequencies(request: DrafterRequest) -> Any:
    if request.frequencies is not None:
        counts, models = np.asarray(request.frequencies), request.models
        known = vocabulary(models.draft or models.target)
        if counts.ndim == 1 and counts.size not in (known, len(models.tokenizer)):  # a head may have more rows
            raise DataError(f"frequencies are of {counts.size} tokens, and there are {known}; give a count for each id")
        return counts
    if not _is_pairs(request):
        raise DataError(
            f"no token frequencies for {request.draft or NO_DRAFT}; pass --frequencies FILE, such as np.save writes of "
            "np.bincount(tokens of a text, minlength=V)"
        )
    return shipped.frequencies()


NO_DRAFT = "a method without a draft model"

DRAFTERS: Mapping[str, Callable[[DrafterRequest], Drafting]] = {
    "fr": _frequent,
    "pa-fr": _fewer_by_depth,
    "dynaspec": _routed,
    "dynaspec-f": partial(_routed, falling=False),
    **{name: partial(_own, name) for name in shipped.DRAFTERS},
    "tli": _foreign,
    "rdk": _redistributed,
}
"""By name."""

"""Methods of decoding by name, ours and those to compare with, for commands and benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from otspec.decode.methods import (
    DynamicTree,
    Lookahead,
    PromptLookup,
    Vanilla,
    assisted,
    assisted_lookup,
    block,
    greedy_lenience,
    plain,
    speculative,
    typical,
)
from otspec.decode.methods.multi_draft import MultiDraft
from otspec.decode.models.tokens.matching import Matching
from otspec.decode.pair.loading import Models
from otspec.decode.settings import DraftModelOptions, DraftSettings
from otspec.decode.step.harness import Generation, run
from otspec.decode.step.strategy import DraftModels, Strategy
from otspec.errors import ProblemError
from otspec.verification.evaluation.losslessness import is_lossless

Decode = Callable[..., Generation]
"""Called as ``decode(input_ids=..., attention_mask=..., max_new_tokens=..., temperature=..., seed=..., ...)``."""


@dataclass(frozen=True)
class Method:
    """A way to decode."""

    summary: str
    takes: tuple[str, ...] = ()
    """Its settings, by the names that `otspec.generate` has for them, or transformers' method itself."""
    strategy: Callable[..., Strategy] | None = None
    """From draft model and settings; None for transformers' own methods."""
    own: Callable[..., Generation] | None = None
    """transformers' own method: called with the models that it needs, settings, and what a `Decode` is called with."""
    drafts: bool = True
    """Whether it has a draft model."""
    lossless: bool = True
    """Whether it is so with lossless rules."""
    batch: bool = True
    """Whether it takes more than one prompt at a time."""


DRAFTS = tuple(one.name for one in fields(DraftSettings))
OF_DRAFT_MODEL = tuple(DraftModelOptions.__annotations__)
"""The settings of drafts, and those of them for how the draft model draws."""

METHODS: Mapping[str, Method] = {
    "multi-draft": Method("drafted trees, verified jointly or node by node", DRAFTS, MultiDraft),
    "vanilla": Method("token by token from the target", (), lambda draft: Vanilla(), drafts=False),
    "generate": Method("transformers' own, token by token", own=plain, drafts=False),
    "single": Method("speculative sampling of one path", ("depth", *OF_DRAFT_MODEL), speculative),
    "block": Method("block verification of one path", ("depth", *OF_DRAFT_MODEL), block),
    "prompt-lookup": Method(
        "drafts copied from the text",
        ("paths", "depth"),
        lambda draft, **settings: PromptLookup(**settings),
        drafts=False,
    ),
    "lookahead": Method(
        "drafts from the target's own guesses behind the text",
        ("paths",),
        lambda draft, **settings: Lookahead(**settings),
        drafts=False,
    ),
    "dynamic-tree": Method(
        "the tokens that the draft model finds likeliest, as a tree (EAGLE-2)",
        ("paths", "depth", "tree", "draft_tokens", "draft_shortlist", "prompt_lookup"),
        DynamicTree,
    ),
    "typical": Method("typical acceptance, lossy", ("paths", "depth", *OF_DRAFT_MODEL), typical, lossless=False),
    "greedy-lenience": Method(
        "greedy text that takes likely drafts, lossy", ("depth", *OF_DRAFT_MODEL), greedy_lenience, lossless=False
    ),
    "assisted": Method(
        "transformers' own assisted generation", ("depth", "schedule", "confidence"), own=assisted, batch=False
    ),
    "assisted-lookup": Method(
        "transformers' own prompt lookup", ("depth",), own=assisted_lookup, drafts=False, batch=False
    ),
}
"""Methods by name."""


def method_of(name: str, settings: Mapping[str, Any], batch: int = 1) -> Method:
    """The method of that name, which takes these settings.

    Raises
    ------
    ProblemError
        If there is no such method, or it has no such setting, or takes one prompt at a time.
    """
    if name not in METHODS:
        raise ProblemError(f"no method {name!r}; known: {', '.join(METHODS)}")
    method = METHODS[name]
    for setting in settings:
        if setting not in method.takes:
            raise ProblemError(f"{name} has no {setting}; it takes {', '.join(method.takes) or 'no such settings'}")
    if batch > 1 and not method.batch:
        raise ProblemError(f"{name} takes one prompt at a time; the batch is {batch}")
    return method


def strategy_of(
    name: str, draft: DraftModels, settings: Mapping[str, Any], matching: Matching | None = None
) -> Strategy:
    """The strategy of that name, one of ours; where the draft model has another tokenizer, with their matching."""
    method = METHODS[name]
    assert method.strategy is not None
    return method.strategy(draft, **settings, **({"matching": matching} if method.drafts else {}))


def decoder(name: str, models: Models, settings: Mapping[str, Any]) -> Decode:
    """The method of that name at work.

    Parameters
    ----------
    name : str
        A key of `METHODS`.
    models : Models
    settings : mapping
        Those of the method, which has defaults for the rest.

    Raises
    ------
    ProblemError
        As `method_of` does, or if the settings contradict each other.
    """
    method = method_of(name, settings)
    if method.strategy is None:
        assert method.own is not None
        needed = (models.target, models.draft) if method.drafts else (models.target,)
        return partial(method.own, *needed, tokenizer=models.tokenizer, **settings)
    return partial(
        run,
        models.target,
        strategy_of(name, models.drafts, settings, models.matching),
        tokenizer=models.tokenizer,
        draft_tokenizer=models.draft_tokenizer,
    )


def lossless(method: Method, settings: Mapping[str, Any]) -> bool:
    """Whether the text has the target's law to rounding: solvers that promise less are tried on a small problem."""
    return method.lossless and is_lossless(settings.get("solver"))


def warm_up(decode: Decode, inputs: Mapping[str, Any], settings: Mapping[str, Any], most: int = 10) -> None:
    """Decode a little, `most` new tokens or fewer: what is timed next then pays for no import and no compilation."""
    for tokens in (1, min(most, 10)):  # one is drawn without drafts, which the others are by chance alone
        decode(**inputs, **settings, max_new_tokens=tokens)

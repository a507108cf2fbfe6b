"""Which drafter drafts from a draft model, by the model's class, and the drafter of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from otspec.decode.base.draft_laws import DraftLaw
from otspec.decode.base.sampling import Sampling
from otspec.decode.drafters.cross_tokenizer.drafter import ForeignDrafter
from otspec.decode.drafters.drafter import Drafter
from otspec.decode.drafters.eagle.drafter import EagleDrafter, ParallelDrafter
from otspec.decode.drafters.eagle.model import Eagle
from otspec.decode.drafters.heads.drafter import HeadsDrafter
from otspec.decode.drafters.heads.model import MedusaHeads, MlpSpeculator
from otspec.decode.drafters.levels import LevelDrafter
from otspec.decode.drafters.model import ModelDrafter
from otspec.decode.drafters.published.mlp import PublishedMlp
from otspec.decode.drafters.sd2.drafter import SteeredDrafter
from otspec.decode.drafters.sd2.model import Steered
from otspec.decode.drafters.several import SeveralDrafters
from otspec.decode.drafters.shortlists.restricted import Restriction
from otspec.decode.drafters.shortlists.selection import Selection
from otspec.decode.models.context import vocabulary
from otspec.decode.models.passes.conditioned import DraftVocabMixin
from otspec.decode.models.tokens.matching import Matching
from otspec.errors import ProblemError
from otspec.verification import Shape

CONDITIONED: Mapping[type[PreTrainedModel], type[LevelDrafter]] = {
    Steered: SteeredDrafter,
    Eagle: EagleDrafter,
    MedusaHeads: HeadsDrafter,
    MlpSpeculator: HeadsDrafter,
    PublishedMlp: HeadsDrafter,
}
"""The drafters of models that receive the target's hidden states, and of classes made of them."""


def needs_features(model: PreTrainedModel) -> bool:
    """Whether a draft model receives its target's hidden states."""
    return isinstance(model, tuple(CONDITIONED))


def drafter_class(model: PreTrainedModel) -> type[LevelDrafter]:
    """The drafter of a model."""
    if isinstance(model, Eagle) and model.config.masks:
        return ParallelDrafter
    return next((CONDITIONED[kind] for kind in type(model).__mro__ if kind in CONDITIONED), ModelDrafter)


def draft_vocabulary_of(models: Sequence[PreTrainedModel]) -> Restriction | None:
    """The tokens of a draft model that drafts some of its target's only; None where there is no such model."""
    for model in models:
        if isinstance(model, DraftVocabMixin) and (tokens := model.draft_tokens) is not None:
            order = np.argsort(tokens)
            return Restriction(tokens[order], own=order)
    return None


def selection_of(
    models: Sequence[PreTrainedModel],
    draft_tokens: Any = None,
    draft_kernel: Any = None,
    draft_shortlist: Selection | None = None,
    matching: Matching | None = None,
) -> Selection | None:
    """The tokens that draft models compute: by the settings of these names, or those that they were trained with.

    Raises
    ------
    ProblemError
        If they were trained with some and the settings name others, or as `Restriction.of` does.
    """
    restrictions = [one for one in (draft_tokens, draft_kernel, draft_shortlist) if one is not None]
    if (own := draft_vocabulary_of(models)) is not None:
        if restrictions:
            raise ProblemError(
                f"the draft model drafts {own.tokens.size} tokens that it was trained with, and no others; leave "
                "out draft_tokens, draft_kernel and draft_shortlist"
            )
        return own
    if draft_shortlist is not None and not hasattr(draft_shortlist, "head"):
        raise ProblemError(f"draft_shortlist is {type(draft_shortlist).__name__}; pass a Router or a Frequent")
    if draft_tokens is None and draft_kernel is None:
        return draft_shortlist
    return Restriction.of(draft_tokens, draft_kernel, own_vocabulary(models) if matching is None else matching.vocab)


def own_vocabulary(models: Sequence[PreTrainedModel]) -> int:
    """How many tokens all draft models have."""
    return min(map(vocabulary, models), default=0)


def drafter_of(
    models: Sequence[PreTrainedModel],
    shape: Shape,
    law: DraftLaw,
    sampling: Sampling,
    vocab: int,
    generator: torch.Generator,
    selection: Selection | None = None,
    matching: Matching | None = None,
    confidence: float = 0.0,
) -> Drafter:
    """The drafter of a run.

    Parameters
    ----------
    models : sequence of PreTrainedModel
        Several, if the law is for several, draft paths of their own.
    shape : Shape
        Of what all of them draft together.
    law : DraftLaw
    sampling : Sampling
        Of the drafts.
    vocab : int
        The target's number of tokens.
    generator : torch.Generator
        On the device of the models.
    selection : Selection, optional
        The tokens that are computed.
    matching : Matching, optional
        The matching of the target's tokens with those of draft models with another tokenizer.
    confidence : float
        Where a path ends before it is whole, see `DraftSettings.draft_confidence`.

    Raises
    ------
    ProblemError
        If these models cannot draft so.
    """
    share = _share(shape, law, len(models))
    if confidence and (law.several or share.branching[:1] not in ((), (1,))):
        raise ProblemError(
            f"draft_confidence ends one path of one draft model, and {share.branching[0]} are drafted side by side "
            f"here, branching {share.branching}, law {law.name!r}; pass paths=1, or a branching that begins with 1"
        )
    if any(map(needs_features, models)) and (law.several or matching is not None):
        alone = "others beside it" if law.several else "a tokenizer of its own"
        raise ProblemError(f"a draft model that reads the target's hidden states drafts without {alone}; pass another")
    drafters: list[LevelDrafter]
    if matching is None:
        drafters = [
            drafter_class(model)(model, share, law, sampling, vocab, generator, selection, confidence)
            for model in models
        ]
    else:
        matching = matching.within(vocab, own_vocabulary(models))
        restriction = _restriction(selection, matching)
        drafters = [
            ForeignDrafter(model, share, law, sampling, vocab, generator, restriction, matching, confidence)
            for model in models
        ]
    return SeveralDrafters(drafters) if law.several else drafters[0]


def _restriction(selection: Selection | None, matching: Matching) -> Restriction:
    """The tokens that are computed of a draft model with another tokenizer."""
    restriction = selection or Restriction(matching.tokens)
    if not isinstance(restriction, Restriction):
        raise ProblemError(
            "draft_shortlist is for a draft model with the target's tokenizer, and this one has another; leave it out, "
            "or pass draft_tokens"
        )
    return restriction.matched(matching)


def _share(shape: Shape, law: DraftLaw, models: int) -> Shape:
    """What each of the draft models drafts."""
    if not law.several:
        if models != 1:
            raise ProblemError(f'{models} draft models, and law is {law.name!r}; several draft by law="independent"')
        return shape
    paths = shape.branching[0] if shape.branching else 0
    if not models or paths % models or not shape.independent_paths:
        raise ProblemError(
            f"{models} draft models draft independent paths, as many of each, and branching is {shape.branching}; "
            f"pass paths={models or 1}, or a multiple of it"
        )
    return Shape.paths(paths // models, shape.depth)

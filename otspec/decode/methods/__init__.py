"""Methods of decoding: a drafter and a verifier each, for `otspec.decode.run(target, STRATEGY, input_ids, ...)`.

`multi_draft` is ours: trees from a draft model, verified by any rule.  `dynamic_tree` takes a draft model's likeliest
tokens, `prompt_lookup` copies drafts from the text, `suffix` counts what followed in it, `lookahead` keeps what the
target guessed behind it, `candidates` asks transformers' candidate generators.  The others are there to compare with:
`vanilla` has no drafts, `typical` is a lossy verifier; `speculative` and `block` below are `multi_draft` with one path.
`plain`, `assisted` and `assisted_lookup` are transformers' own methods, measured alike.
`catalogue` has all of them by name, for commands and benchmarks.
"""

from __future__ import annotations

from typing import Unpack

from transformers import PreTrainedModel

from otspec.decode.base.sampling import DraftSettings
from otspec.decode.methods.assisted import assisted, assisted_lookup
from otspec.decode.methods.candidates import Candidates
from otspec.decode.methods.dynamic_tree import DynamicTree
from otspec.decode.methods.lookahead import Lookahead
from otspec.decode.methods.multi_draft import MultiDraft
from otspec.decode.methods.plain import plain
from otspec.decode.methods.prompt_lookup import PromptLookup
from otspec.decode.methods.suffix import Suffix
from otspec.decode.methods.typical import Typical
from otspec.decode.methods.vanilla import Vanilla
from otspec.decode.models.tokens.matching import Matching


def speculative(
    draft: PreTrainedModel,
    depth: int | None = None,
    matching: Matching | None = None,
    **drafts: Unpack[DraftSettings],
) -> MultiDraft:
    """Speculative sampling: one path, token by token [leviathan2023fast; chen2023accelerating]."""
    return MultiDraft(draft, 1, depth, "single", matching=matching, **drafts)


def block(
    draft: PreTrainedModel,
    depth: int | None = None,
    matching: Matching | None = None,
    **drafts: Unpack[DraftSettings],
) -> MultiDraft:
    """Block verification of one path [sun2024block]."""
    return MultiDraft(draft, 1, depth, "block", matching=matching, **drafts)


def typical(
    draft: PreTrainedModel,
    paths: int | None = None,
    depth: int | None = None,
    matching: Matching | None = None,
    **drafts: Unpack[DraftSettings],
) -> MultiDraft:
    """Typical acceptance of the longest of several paths [cai2024medusa]: lossy."""
    return MultiDraft(draft, paths, depth, Typical(), lossless=False, matching=matching, **drafts)


__all__ = [
    "Candidates",
    "DynamicTree",
    "Lookahead",
    "PromptLookup",
    "Suffix",
    "Typical",
    "Vanilla",
    "assisted",
    "assisted_lookup",
    "block",
    "plain",
    "speculative",
    "typical",
]

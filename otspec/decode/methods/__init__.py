"""Methods of decoding: a drafter and a verifier each, for `otspec.decode.run(target, STRATEGY, input_ids, ...)`.

`multi_draft` is ours: trees from a draft model, verified by any rule.  `dynamic_tree` takes a draft model's likeliest
tokens, `prompt_lookup` copies drafts from the text, `lookahead` drafts what the target guessed behind it.  The others
are there to compare with: `vanilla` has no drafts, `typical` and `greedy_lenience` are lossy; `speculative` and `block`
below are `multi_draft` with one path.
`plain`, `assisted` and `assisted_lookup` are transformers' own methods, measured alike.
`catalogue` has all of them by name, for commands and benchmarks.
"""

from __future__ import annotations

from otspec.extras import require

require("torch")
require("transformers")

from typing import Unpack  # noqa: E402

from transformers import PreTrainedModel  # noqa: E402

from otspec.decode.methods.assisted import assisted, assisted_lookup, plain  # noqa: E402
from otspec.decode.methods.dynamic_tree import DynamicTree  # noqa: E402
from otspec.decode.methods.likely_enough import GreedyLenience, Typical  # noqa: E402
from otspec.decode.methods.multi_draft import MultiDraft  # noqa: E402
from otspec.decode.methods.without_draft import Lookahead, PromptLookup, Vanilla  # noqa: E402
from otspec.decode.models.tokens.matching import Matching  # noqa: E402
from otspec.decode.settings import DraftModelOptions  # noqa: E402


def speculative(
    draft: PreTrainedModel,
    depth: int | None = None,
    matching: Matching | None = None,
    **drafts: Unpack[DraftModelOptions],
) -> MultiDraft:
    """Speculative sampling: one path, token by token [leviathan2023fast; chen2023accelerating]."""
    return MultiDraft(draft, matching=matching, paths=1, depth=depth, solver="single", **drafts)


def block(
    draft: PreTrainedModel,
    depth: int | None = None,
    matching: Matching | None = None,
    **drafts: Unpack[DraftModelOptions],
) -> MultiDraft:
    """Block verification of one path [sun2024block]."""
    return MultiDraft(draft, matching=matching, paths=1, depth=depth, solver="block", **drafts)


def typical(
    draft: PreTrainedModel,
    paths: int | None = None,
    depth: int | None = None,
    matching: Matching | None = None,
    **drafts: Unpack[DraftModelOptions],
) -> MultiDraft:
    """Typical acceptance of the longest of several paths [cai2024medusa]: lossy."""
    return MultiDraft(draft, matching=matching, lossless=False, paths=paths, depth=depth, solver=Typical(), **drafts)


def greedy_lenience(
    draft: PreTrainedModel,
    depth: int | None = None,
    matching: Matching | None = None,
    lenience: float = GreedyLenience.lenience,
    **drafts: Unpack[DraftModelOptions],
) -> MultiDraft:
    """Greedy text that takes drafts of at least `lenience` times the largest probability [leviathan2023fast]: lossy."""
    settings: DraftModelOptions = {"draft_temperature": 0.0, **drafts}
    rule = GreedyLenience(lenience)
    return MultiDraft(draft, matching=matching, lossless=False, paths=1, depth=depth, solver=rule, **settings)


__all__ = [
    "DynamicTree",
    "GreedyLenience",
    "Lookahead",
    "PromptLookup",
    "Typical",
    "Vanilla",
    "assisted",
    "assisted_lookup",
    "block",
    "greedy_lenience",
    "plain",
    "speculative",
    "typical",
]

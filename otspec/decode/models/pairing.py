"""Whether two models can decode together."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedModel

from otspec.decode.models.context import vocabulary
from otspec.decode.models.passes.conditioned import Borrower
from otspec.decode.models.tokens.matching import Matching, matching_of
from otspec.errors import ProblemError


def pair_up(target: PreTrainedModel, draft: PreTrainedModel, tokenizer: Any, draft_tokenizer: Any) -> Matching | None:
    """The matching of two models' tokens; None where ids mean the same to both.

    Vocabularies of different size are fine when both tokenizers are given: where these agree, some models pad their
    embeddings beyond the tokenizer, and where they differ, tokens are identified by their text.

    Raises
    ------
    ProblemError
        If the tokenizers differ and cannot be matched, or the vocabularies do and no tokenizers are there to show why;
        if the models are on different devices; or if the draft model borrows parts of its target, which is another.
    """
    if tokenizer is None or draft_tokenizer is None:
        check_sizes(target, draft)
    if (found := matching_of(tokenizer, draft_tokenizer)) is not None:
        found.within(vocabulary(target), vocabulary(draft))
    check_devices(target, draft)
    if isinstance(draft, Borrower):
        draft.borrow(target)
    return found


def check_pair(
    target: PreTrainedModel, draft: PreTrainedModel, tokenizer: Any, draft_tokenizer: Any, matching: Matching | None
) -> None:
    """Check that a strategy has the matching of two models' tokens, where it needs one.

    Parameters
    ----------
    target, draft : PreTrainedModel
    tokenizer, draft_tokenizer : PreTrainedTokenizerBase, optional
    matching : Matching, optional
        The strategy's.

    Raises
    ------
    ProblemError
        As `pair_up` does, or if the tokenizers differ and the strategy has no matching.
    """
    if matching is not None:
        check_devices(target, draft)
    elif pair_up(target, draft, tokenizer, draft_tokenizer) is not None:
        one, other = tokenizer.get_vocab(), draft_tokenizer.get_vocab()
        differing = sorted(token for token in one.keys() | other.keys() if one.get(token) != other.get(token))
        token = differing[0]
        raise ProblemError(
            f"the tokenizers differ in {len(differing)} tokens, {token!r} for one: id {one.get(token)} in the target's "
            f"and {other.get(token)} in the draft model's; give the strategy their matching, by "
            "MultiDraft(..., matching=matching_of(tokenizer, draft_tokenizer)), as otspec.generate does"
        )


def check_sizes(target: PreTrainedModel, draft: PreTrainedModel) -> None:
    """Raise unless two models of which no tokenizers are known have as many tokens."""
    sizes = vocabulary(target), vocabulary(draft)
    if sizes[0] != sizes[1]:
        raise ProblemError(
            f"the target has {sizes[0]} tokens and the draft model {sizes[1]}; pass tokenizer= and draft_tokenizer= to "
            "otspec.generate, which then finds whether only their embeddings differ in size, or drafts what the two "
            "tokenizers have in common"
        )


def check_devices(target: PreTrainedModel, draft: PreTrainedModel) -> None:
    """Raise unless two models are on one device."""
    if target.device != draft.device:
        raise ProblemError(f"the target is on {target.device} and the draft model on {draft.device}; move one of them")

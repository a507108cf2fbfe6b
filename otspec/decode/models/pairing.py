"""Whether two models can decode together."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedModel

from otspec.decode.models.context import vocabulary
from otspec.errors import ProblemError


def check_pair(target: PreTrainedModel, draft: PreTrainedModel, tokenizer: Any, draft_tokenizer: Any) -> None:
    """Check that token ids mean the same to both models.

    Vocabularies of different size are fine when both tokenizers are given and agree: some models pad their embeddings
    beyond the tokenizer.

    Parameters
    ----------
    target, draft : PreTrainedModel
    tokenizer, draft_tokenizer : PreTrainedTokenizerBase, optional

    Raises
    ------
    ProblemError
        If the tokenizers differ, or the vocabularies do and no tokenizers are there to tell why; or if the models are
        on different devices.
    """
    both = tokenizer is not None and draft_tokenizer is not None
    if both:
        check_tokenizers(tokenizer, draft_tokenizer)
    sizes = vocabulary(target), vocabulary(draft)
    if sizes[0] != sizes[1] and not both:
        raise ProblemError(
            f"the target has {sizes[0]} tokens and the draft model {sizes[1]}; both need one tokenizer. If they have "
            "it, and only their embeddings differ in size, pass tokenizer= and draft_tokenizer= to otspec.generate"
        )
    if target.device != draft.device:
        raise ProblemError(f"the target is on {target.device} and the draft model on {draft.device}; move one of them")


def check_tokenizers(tokenizer: Any, draft_tokenizer: Any) -> None:
    """Raise unless two tokenizers give all tokens the same ids."""
    one, other = tokenizer.get_vocab(), draft_tokenizer.get_vocab()
    if one == other:
        return
    differing = sorted(token for token in one.keys() | other.keys() if one.get(token) != other.get(token))
    token = differing[0]
    raise ProblemError(
        f"the tokenizers differ in {len(differing)} tokens, {token!r} for one: id {one.get(token)} in the target's and "
        f"{other.get(token)} in the draft model's; drafts are token ids, so both models need one tokenizer"
    )

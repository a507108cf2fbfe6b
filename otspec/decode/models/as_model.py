"""A pair of language models after a text, as `otspec.verification` takes models: from the next tokens to laws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import torch
from transformers import PreTrainedModel

from otspec.decode.models.context import Context, positions, vocabulary
from otspec.errors import ProblemError
from otspec.laws import FloatArray
from otspec.logits import law_from_logits
from otspec.verification import Model
from otspec.verification.trees.tree import Prefix

REMEMBER = 4096
"""Laws of each model that are cached."""


def model_after(
    target: PreTrainedModel,
    draft: PreTrainedModel,
    tokens: Sequence[int],
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Model:
    """Both models' laws after a text and any tokens that may follow it, to study how drafts of them are verified.

    Parameters
    ----------
    target, draft : PreTrainedModel
        Causal language models of one vocabulary.
    tokens : sequence of int
        The text, at least one token.
    temperature, top_k, top_p
        Of both models, as in `otspec.logits.law_from_logits`.

    Raises
    ------
    ProblemError
        If there is no text, the vocabularies differ, or a model cannot read trees; when a law is computed, if text
        and tokens are more than a model has positions for.

    Examples
    --------
    >>> from otspec.decode import model_after, shipped
    >>> from otspec.verification import Block
    >>> target, draft, tokenizer = shipped.load()
    >>> model = model_after(target, draft, tokenizer("import numpy as").input_ids)
    >>> law = Block().stop_law(model.tree(model.sample(count=1, length=2, rng=0)))  # what a rule does with drafts here
    >>> print(f"{law.sum():.6f}")
    1.000000
    """
    if not tokens:
        raise ProblemError("the text is empty; pass one token at least, such as that which begins a text")
    if vocabulary(target) != vocabulary(draft):
        raise ProblemError(
            f"the target has {vocabulary(target)} tokens, and the draft model {vocabulary(draft)}; pass a pair of one "
            "vocabulary"
        )

    def law(name: str, model: PreTrainedModel) -> Callable[[Prefix], FloatArray]:
        following = _Following(model, tokens)
        return lru_cache(REMEMBER)(
            lambda prefix: law_from_logits(name, following.logits(prefix), temperature, top_k, top_p)
        )

    return Model(law("target", target), law("draft", draft))


class _Following:
    """A model that has read a text but for its last token."""

    @torch.no_grad()
    def __init__(self, model: PreTrainedModel, tokens: Sequence[int]) -> None:
        self.context = Context(model, [list(tokens[:-1])])
        self.last = tokens[-1]

    @torch.no_grad()
    def logits(self, prefix: Prefix) -> FloatArray:
        """After the text and more tokens, shape (V,)."""
        read, rows = self.context.end, 1 + len(prefix)
        if read + rows > positions(self.context.model):
            raise ProblemError(
                f"a text of {read + 1} tokens and {len(prefix)} more: the model has "
                f"{positions(self.context.model):.0f} positions; pass a shorter text"
            )
        device = self.context.device
        sees = torch.ones(1, rows, rows, dtype=torch.bool, device=device).tril() if rows > 1 else None
        found = self.context.read(
            torch.tensor([[self.last, *prefix]], device=device),
            torch.arange(read, read + rows, device=device)[None],
            sees,
            keep=1,
        )
        self.context.commit([[]], [0])
        logits: FloatArray = found.logits[0, 0].double().cpu().numpy()
        return logits

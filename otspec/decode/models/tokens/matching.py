"""Which tokens of a target are tokens of a draft model with another tokenizer: those of the same text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from otspec.decode.models.tokens.spelling import ROLES, Spelling
from otspec.errors import ProblemError
from otspec.laws import IntArray

LEAST_SHARE = 0.01
"""Share of the target's tokens that a draft model has to know at least: with fewer hardly a draft is accepted."""


@dataclass(frozen=True, eq=False)
class Matching:
    """The tokens that two tokenizers have in common, identified by their bytes, and special ones by their roles.

    Make one with `matching_of`.
    """

    target: Spelling
    draft: Spelling
    tokens: IntArray
    """Ids of the target's tokens that have a counterpart, ascending, shape (k,)."""
    own: IntArray
    """Ids of their counterparts in the draft model, shape (k,)."""
    special: Mapping[int, int]
    """Counterparts of the special tokens alone."""
    vocab: int
    """Number of the target's tokens."""

    @property
    def share(self) -> float:
        """The share of the target's tokens that have a counterpart."""
        return len(self.tokens) / self.vocab

    def within(self, vocab: int, own: int) -> Matching:
        """The same for a target and a draft model of so many tokens: a model may have fewer than its tokenizer.

        Raises
        ------
        ProblemError
            If hardly a token is left.
        """
        known = (self.tokens < vocab) & (self.own < own)
        special = {token: mine for token, mine in self.special.items() if token < vocab and mine < own}
        found = replace(self, tokens=self.tokens[known], own=self.own[known], special=special, vocab=vocab)
        if found.share < LEAST_SHARE or not found.tokens.size:
            raise ProblemError(
                f"{found.tokens.size} of the target's {vocab} tokens are tokens of the draft model, and drafts are "
                f"worth making where {LEAST_SHARE:.0%} are; pass a draft model with a tokenizer closer to the target's"
            )
        return found

    def reading(self, all_tokens: bool) -> IntArray:
        """The token that the draft model reads for each of the target's, shape (V,): its counterpart.

        Parameters
        ----------
        all_tokens : bool
            Whether others are read as well, which no draft is unless a kernel moves mass to them: by the last of the
            tokens that spell them, as what comes next depends on the end of a text most of all.
        """
        read = np.full(self.vocab, self.draft.blank)
        if all_tokens:
            for token, spelt in self.target.bytes_of.items():
                if token < self.vocab:
                    read[token] = self.draft.encode(spelt)[-1]
        read[self.tokens] = self.own
        return read


def matching_of(tokenizer: Any, draft_tokenizer: Any) -> Matching | None:
    """The tokens that two tokenizers have in common; None where they are the same, or one is not given.

    Parameters
    ----------
    tokenizer, draft_tokenizer : PreTrainedTokenizerBase, optional
        The target's and the draft model's.

    Raises
    ------
    ProblemError
        If they differ and the bytes of the tokens of one are not known, or hardly a token is in common, or the draft
        model's has no token for some byte; the target's may lack some, as SmolLM2's does.

    Examples
    --------
    >>> from otspec.decode import matching_of, shipped
    >>> matching = matching_of(shipped.load().tokenizer, shipped.foreign().tokenizer)
    >>> print(f"{matching.tokens.size} tokens of {matching.vocab} in common")
    1024 tokens of 2048 in common
    """
    if tokenizer is None or draft_tokenizer is None or tokenizer is draft_tokenizer:
        return None
    tokens, own = tokenizer.get_vocab(), draft_tokenizer.get_vocab()
    if tokens == own:
        return None
    target, draft = (
        _spelling(tokenizer, "tokenizer", len(tokens)),
        _spelling(draft_tokenizer, "draft_tokenizer", len(own)),
    )
    draft.check_every_byte()  # it reads whatever the target writes, which drafts only what both have
    special = _special(target, draft)
    drafted = {draft.ids[spelt]: token for spelt, token in target.ids.items() if spelt in draft.ids}
    for token, own in special.items():
        drafted.setdefault(
            own, token
        )  # several of the target's may be one of the draft model's, which drafts the first
    pairs = np.array(sorted((token, mine) for mine, token in drafted.items()), dtype=np.int64).reshape(-1, 2)
    sizes = (max((*one.bytes_of, *one.special)) + 1 for one in (target, draft))
    return Matching(target, draft, pairs[:, 0], pairs[:, 1], special, 0).within(*sizes)


@lru_cache(maxsize=8)
def _spelling(tokenizer: Any, whose: str, size: int) -> Spelling:
    """Made once for a tokenizer, unless it has got more tokens."""
    return Spelling(tokenizer, whose)


def _special(target: Spelling, draft: Spelling) -> dict[int, int]:
    """The draft model's special token for each of the target's that it has one for: by role, and else by name."""
    found: dict[int, int] = {}
    for role in ROLES:
        if role in target.roles and role in draft.roles:
            found.setdefault(target.roles[role], draft.roles[role])
    named = {name: number for number, name in draft.special.items()}
    for number, name in target.special.items():
        if name in named:
            found.setdefault(number, named[name])
    return found

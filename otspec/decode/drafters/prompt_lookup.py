"""Drafts copied from the text: what followed the same few tokens earlier [saxena2023prompt]."""

from __future__ import annotations

from collections.abc import Sequence

from otspec.decode.base.drafts import Drafts
from otspec.decode.drafters.drafter import Drafter
from otspec.laws import IntArray


class LookupDrafter(Drafter):
    """Fixed drafts from the text itself.

    Parameters
    ----------
    count : int
        Different continuations at most.
    length : int
        Tokens of each, at most.
    ngram : int
        How many last tokens of the text are looked up; where they do not occur often enough, fewer.
    """

    def __init__(self, count: int, length: int, ngram: int) -> None:
        self.count = count
        self.length = length
        self.ngram = ngram

    def depth(self, lengths: IntArray) -> int:
        """As long as asked for."""
        return self.length

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Copy; a text in which nothing is found gets no draft."""
        return Drafts.fixed([continuations(text, self.ngram, depth, self.count) for text in texts])


def continuations(text: Sequence[int], ngram: int, depth: int, count: int = 1) -> list[list[int]]:
    """What followed earlier occurrences of the ending of the text: so many different continuations at most.

    Each has at most `depth` tokens.  Longer endings come first, and of one length the latest occurrences.
    """
    tokens, found = list(text), list[list[int]]()
    for size in range(min(ngram, len(tokens) - 1), 0, -1):
        ending = tokens[-size:]
        for start in range(len(tokens) - size - 1, -1, -1):
            if tokens[start : start + size] == ending:
                copy = tokens[start + size : start + size + depth]
                if all(other[: len(copy)] != copy for other in found):
                    found.append(copy)
                    if len(found) == count:
                        return found
    return found

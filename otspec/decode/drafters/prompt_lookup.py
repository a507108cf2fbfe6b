"""Drafts copied from the text: what followed the same few tokens earlier [saxena2023prompt]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from otspec.decode.base.drafts import Drafts
from otspec.decode.drafters.drafter import Drafter, WrappedDrafter
from otspec.laws import IntArray, as_count

LONGEST, SHORTEST = 4, 2
"""Tokens of the endings that are looked up beside other drafts: a single one occurs again by chance."""


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
        """As long as requested."""
        return self.length

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Copy; a text in which nothing is found gets no draft."""
        return Drafts.fixed([continuations(text, self.ngram, depth, self.count) for text in texts])


class BesideLookup(WrappedDrafter):
    """Adds one path copied from the text to the tree of another drafter, where the ending of the text occurs earlier.

    That path is fixed.  What was drawn from laws is verified by itself, and from where that ends the copied path is
    followed while the target's own draws agree with it (`otspec.decode.verify.step`).

    Parameters
    ----------
    drafter : Drafter
    length : int
        Tokens of the copy, at most.
    """

    def __init__(self, drafter: Drafter, length: int) -> None:
        super().__init__(drafter)
        self.length = length
        self._depth = 0
        """Of the drafter inside, in this step."""
        self._drafts: Drafts | None = None
        """The drafts of this step; None where the drafter inside drafted nothing."""

    def depth(self, lengths: IntArray) -> int:
        """As deep as either of the two goes."""
        self._depth, self._drafts = super().depth(lengths), None
        return max(self._depth, self.length)

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft, and copy."""
        copies = [continuations(text, LONGEST, min(depth, self.length), least=SHORTEST) for text in texts]
        if not (own := min(depth, self._depth)):
            return Drafts.fixed(copies)
        self._drafts = super().draft(texts, own).with_fixed(copies)
        return self._drafts

    def commit(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Keep what was accepted; of the drafter inside those slots that it drafted itself."""
        super().commit(self._own_slots(accepted), rows)

    def _own_slots(self, accepted: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
        """Accepted slots as the drafter inside numbers them, and none of the others."""
        if self._drafts is None:
            return [[] for _ in accepted]
        if self._drafts.drawn is None:
            return accepted
        numbers = [
            dict(zip(whole.slot[node].tolist(), tree.slot.tolist(), strict=True))
            for whole, (tree, node) in zip(self._drafts.trees, self._drafts.drawn, strict=True)
        ]
        return [[own[slot] for slot in slots if slot in own] for own, slots in zip(numbers, accepted, strict=True)]


def beside(drafter: Drafter, length: int | None) -> Drafter:
    """The drafter with a copied path of so many tokens at most beside its own; None: itself.

    Raises
    ------
    ProblemError
        If the length is no count.
    """
    return drafter if length is None else BesideLookup(drafter, as_count("prompt_lookup", length))


def continuations(text: Sequence[int], ngram: int, depth: int, count: int = 1, *, least: int = 1) -> list[list[int]]:
    """What followed earlier occurrences of the ending of the text: so many different continuations at most.

    Each has at most `depth` tokens.  Endings of `ngram` to `least` tokens are looked up; longer ones come first, and of
    one length the latest occurrences.
    """
    tokens, found = np.asarray(text), list[list[int]]()
    for size in range(min(ngram, len(tokens) - 1), least - 1, -1):
        alike = (sliding_window_view(tokens[:-1], size) == tokens[-size:]).all(axis=1)
        starts = size + np.flatnonzero(alike)[::-1]
        while starts.size:
            copy = tokens[starts[0] : starts[0] + depth].tolist()
            if all(other[: len(copy)] != copy for other in found):
                found.append(copy)
                if len(found) == count:
                    return found
            elif len(copy) == depth:  # a text that repeats itself has thousands of these
                starts = starts[(sliding_window_view(tokens, depth)[starts] != copy).any(axis=1)]
                continue
            starts = starts[1:]
    return found

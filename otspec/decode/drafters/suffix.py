"""Fixed drafts by counts of what followed the ending of the text before: suffix decoding [oliaro2024suffix].

The counts are those of `arctic-inference`, which keeps them in suffix trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from otspec.decode.base.drafts import Drafts
from otspec.decode.drafters.drafter import Drafter
from otspec.laws import IntArray


class SuffixDrafter(Drafter):
    """Fixed drafts from suffix trees.

    Parameters
    ----------
    count : int
        With 1 a text gets a path, with more a tree of so many times `length` tokens at most.
    length : int
        Tokens of a path at most.
    memory : SuffixDecodingCache
        Of `arctic_inference.suffix_decoding`.  What texts have got new is remembered there; their prompts are dropped
        when the next run starts.
    """

    def __init__(self, count: int, length: int, memory: Any) -> None:
        self.count = count
        self.length = length
        self.memory = memory
        self._requests: list[object] = []
        self._known: list[int] = []
        """Of each text: its tokens that the memory has."""

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts."""
        for request in list(self.memory.active_requests):
            self.memory.stop_request(request)
        self._requests = [object() for _ in texts]
        self._known = [len(text) for text in texts]
        for request, text in zip(self._requests, texts, strict=True):
            self.memory.start_request(request, list(text))

    def depth(self, lengths: IntArray) -> int:
        """As long as asked for."""
        return self.length

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Read what is new in the texts, and look up how they may go on; some get no draft."""
        for at, text in enumerate(texts):
            self.memory.add_active_response(self._requests[at], list(text[self._known[at] :]))
            self._known[at] = len(text)
        found = [
            self.memory.speculate(
                request,
                list(text[-self.memory.max_tree_depth :]),
                max_spec_tokens=self.count * depth,
                use_tree_spec=self.count > 1,
            )
            for request, text in zip(self._requests, texts, strict=True)
        ]
        return Drafts.fixed([_paths(one.token_ids, one.parents, depth) for one in found])

    def commit(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """Forget which texts have ended."""
        self._requests = [self._requests[row] for row in rows]
        self._known = [self._known[row] for row in rows]


def _paths(tokens: Sequence[int], parents: Sequence[int], depth: int) -> list[list[int]]:
    """The paths to the leaves of a tree whose nodes come after their parents, cut at a depth; no parent is -1."""
    lines: list[list[int]] = []
    for token, parent in zip(tokens, parents, strict=True):
        lines.append([*(lines[parent] if parent >= 0 else ()), token])
    inner = set(parents)
    return [line[:depth] for node, line in enumerate(lines) if node not in inner]

"""Where drafted tokens hang: the topology of a drafted tree before equal prefixes are merged, known before drafting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from otspec.laws import BoolArray, IntArray, as_count


@dataclass(frozen=True)
class Shape:
    """How many children each slot of a level has: (K, 1, ..., 1) for K paths [sun2023spectr], (n, n, ...) for a tree.

    Slot 0 is the root, the text so far; each other slot holds one drafted token.  Slots are numbered level by level,
    the children of one slot side by side.  () drafts nothing.
    """

    branching: tuple[int, ...]

    @classmethod
    def of(cls, branching: Sequence[int]) -> Shape:
        """A checked shape.

        Raises
        ------
        ProblemError
            If a number of children is not an integer >= 1.
        """
        return cls(tuple(as_count("branching", children) for children in branching))

    @classmethod
    def paths(cls, count: int, length: int) -> Shape:
        """`count` independent paths of `length` tokens.

        Raises
        ------
        ProblemError
            If one of them is not an integer >= 1.
        """
        return cls((as_count("paths", count), *(1,) * (as_count("depth", length) - 1)))

    @property
    def depth(self) -> int:
        """Number of levels L below the root."""
        return len(self.branching)

    @property
    def independent_paths(self) -> bool:
        """Whether no two leaves share a draw."""
        return all(children == 1 for children in self.branching[1:])

    def cut(self, depth: int) -> Shape:
        """The first levels alone."""
        return self if depth >= self.depth else Shape(self.branching[:depth])

    @cached_property
    def offsets(self) -> list[int]:
        """First slot of each level 0 to L, and the number of slots."""
        offsets, width = [0, 1], 1
        for children in self.branching:
            width *= children
            offsets.append(offsets[-1] + width)
        return offsets

    @property
    def slots(self) -> int:
        """Number of slots, the root among them."""
        return self.offsets[-1]

    @cached_property
    def parent(self) -> IntArray:
        """Shape (slots,): -1 for the root."""
        levels = [np.array([-1])]
        for level, children in enumerate(self.branching):
            levels.append(np.repeat(np.arange(self.offsets[level], self.offsets[level + 1]), children))
        return np.concatenate(levels)

    @cached_property
    def paths_of_slots(self) -> IntArray:
        """Shape (leaves, L + 1): the slots from the root to each leaf."""
        slots = np.arange(self.offsets[-2], self.offsets[-1])
        levels = [slots]
        for _ in range(self.depth):
            slots = self.parent[slots]
            levels.append(slots)
        return np.stack(levels[::-1], axis=1)

    @cached_property
    def lineage(self) -> BoolArray:
        """Shape (slots, slots): whether the second is the first or one of its ancestors."""
        return lineage(self.parent)


def lineage(parent: IntArray) -> BoolArray:
    """Of a tree whose nodes come after their parents, shape (N,): whether j is i or an ancestor of i, shape (N, N)."""
    own = np.eye(parent.size, dtype=bool)
    for node in range(1, parent.size):
        own[node] |= own[parent[node]]
    return own

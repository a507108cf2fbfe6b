"""Where drafted tokens hang: the topology of a drafted tree before equal prefixes are merged, known before drafting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from otspec.certificate import readable
from otspec.errors import ProblemError
from otspec.laws import BoolArray, IntArray, as_count

MOST_SLOTS = 1 << 20
"""Of one tree: several integers each, and a pass over them in Python."""

MOST_BYTES = 1 << 32
"""Memory that one tree may take in decoding; a batch has several."""

BYTES_OF_A_PROBABILITY = 2 * 8
"""In float64, of the target's law and of the draft's."""
BYTES_OF_A_PAIR = 32
"""Of two slots: eight heads attend from the one to the other in float32."""


@dataclass(frozen=True)
class Shape:
    """How many children each slot of a level has: (K, 1, ..., 1) for K paths [sun2023spectr], (n, n, ...) for a tree.

    Slot 0 is the root, the text so far; each other slot holds one drafted token.  Slots are numbered level by level,
    the children of one slot side by side.  () drafts nothing.  Where slots of one level have different numbers of
    children, or none, `each` has them (`Shape.of_counts`): such a shape is *uneven*.

    Examples
    --------
    Two paths of three tokens; and a stem of one token, behind which every token has two children.

    >>> from otspec.verification import Shape
    >>> Shape.paths(2, 3).branching, Shape.of((1, 2)).slots
    ((2, 1, 1), 4)
    >>> print(Shape.of((1, 2)).parent)  # of every slot, -1 for the root
    [-1  0  1  1]
    """

    branching: tuple[int, ...]
    """Of each level: the children of a slot, or of an uneven one the most that a slot has."""
    each: tuple[tuple[int, ...], ...] = ()
    """Of an uneven shape: the children of every slot of levels 0 to L - 1."""

    @classmethod
    def of_counts(cls, each: Sequence[Sequence[int]]) -> Shape:
        """The shape whose slots of levels 0 to L - 1 have the numbers of children in `each`, unchecked.

        Examples
        --------
        Two children of the root, of which the first has three.

        >>> from otspec.verification import Shape
        >>> Shape.of_counts([[2], [3, 0]]).slots
        6
        """
        branching = tuple(max(counts) for counts in each)
        even = all(min(counts) == most for counts, most in zip(each, branching, strict=True))
        return cls(branching) if even else cls(branching, tuple(map(tuple, each)))

    @classmethod
    def of(cls, branching: Sequence[int]) -> Shape:
        """A checked shape.

        Raises
        ------
        ProblemError
            If a number of children is not an integer >= 1, or there are more than `MOST_SLOTS` slots.
        """
        if not isinstance(branching, Iterable):
            raise ProblemError(f"branching is {branching!r}; pass the children of each level, such as [3, 2, 1]")
        checked, slots, width = [], 1, 1
        for children in branching:
            checked.append(as_count("branching", children))
            width *= checked[-1]
            slots += width
            if slots > MOST_SLOTS:
                raise ProblemError(
                    f"branching has {readable(slots)} slots down to level {len(checked)}, and a tree at most "
                    f"{MOST_SLOTS:,}; draft fewer children, or less deep"
                )
        return cls(tuple(checked))

    @classmethod
    def paths(cls, count: int, length: int) -> Shape:
        """`count` independent paths of `length` tokens.

        Raises
        ------
        ProblemError
            If one of them is not an integer >= 1, or there are more than `MOST_SLOTS` slots.
        """
        count, length = as_count("paths", count), as_count("depth", length)
        if count * length >= MOST_SLOTS:
            raise ProblemError(
                f"{count:,} paths of {length:,} tokens have {count * length + 1:,} slots, and a tree at most "
                f"{MOST_SLOTS:,}; draft fewer paths, or less deep"
            )
        return cls((count, *(1,) * (length - 1)))

    @property
    def depth(self) -> int:
        """Number of levels L below the root."""
        return len(self.branching)

    @property
    def independent_paths(self) -> bool:
        """Whether no two leaves share a draw."""
        return not self.each and all(children == 1 for children in self.branching[1:])

    def cut(self, depth: int) -> Shape:
        """The first levels alone."""
        if depth >= self.depth:
            return self
        return Shape.of_counts(self.each[:depth]) if self.each else Shape(self.branching[:depth])

    def children_at(self, level: int) -> IntArray:
        """How many children each slot of a level has, shape (width,); level 0 is the root alone."""
        if self.each:
            return np.array(self.each[level])
        return np.full(self.offsets[level + 1] - self.offsets[level], self.branching[level])

    @cached_property
    def offsets(self) -> list[int]:
        """First slot of each level 0 to L, and the number of slots."""
        offsets, width = [0, 1], 1
        for level, children in enumerate(self.branching):
            width = sum(self.each[level]) if self.each else width * children
            offsets.append(offsets[-1] + width)
        return offsets

    @property
    def slots(self) -> int:
        """Number of slots, the root among them."""
        return self.offsets[-1]

    def check_room(self, vocab: int) -> None:
        """Make sure that a model of `vocab` tokens can draft and read such a tree in the memory of one machine.

        Raises
        ------
        ProblemError
            If the laws of both models at all slots, and the attention between the slots, take more than `MOST_BYTES`.
        """
        needed = self.slots * (BYTES_OF_A_PROBABILITY * vocab + BYTES_OF_A_PAIR * self.slots)
        if needed > MOST_BYTES:
            raise ProblemError(
                f"a tree of {self.slots:,} slots takes some {readable(needed >> 20)} MiB: laws over {vocab:,} tokens "
                f"at each of them, and attention between them. At most {MOST_BYTES >> 20:,} MiB are for one tree; "
                "draft fewer paths, or less deep"
            )

    @cached_property
    def parent(self) -> IntArray:
        """Shape (slots,): -1 for the root."""
        levels = [np.array([-1])]
        for level in range(self.depth):
            slots = np.arange(self.offsets[level], self.offsets[level + 1])
            levels.append(np.repeat(slots, self.children_at(level)))
        return np.concatenate(levels)

    @cached_property
    def place(self) -> IntArray:
        """Shape (slots,): the number of each slot among those that have children, -1 for the leaves."""
        inner = np.zeros(self.slots, dtype=bool)
        inner[self.parent[1:]] = True
        return np.where(inner, inner.cumsum() - 1, -1)

    @cached_property
    def level(self) -> IntArray:
        """Shape (slots,): how deep each slot is, 0 for the root."""
        return np.searchsorted(self.offsets, np.arange(self.slots), side="right") - 1

    @cached_property
    def paths_of_slots(self) -> IntArray:
        """Shape (leaves, L + 1): the slots from the root to each leaf, -1 behind one that is not as deep as others."""
        slots = np.flatnonzero(self.place < 0)
        paths = np.full((slots.size, self.depth + 1), -1)
        rows, level = np.arange(slots.size), self.level[slots]
        while rows.size:
            paths[rows, level] = slots
            slots, level = self.parent[slots], level - 1
            rows, slots, level = rows[level >= 0], slots[level >= 0], level[level >= 0]
        return paths

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

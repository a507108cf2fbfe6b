"""The tree of drafted prefixes: equal ones merged, children linked as first child and next sibling."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from otspec.decode.shape import Shape, lineage
from otspec.laws import BoolArray, IntArray

NONE = -1
"""No such node, or a slot without a token."""


@dataclass(frozen=True, eq=False)
class DraftTree:
    """The distinct prefixes of drafted tokens.

    Node 0 is the root, the text so far.  Nodes are numbered level by level, so a parent comes before its children.
    All arrays of shape (N,) hold one entry a node, `NONE` where there is none.
    """

    token: IntArray
    """Shape (N,): the last token of each prefix."""
    parent: IntArray
    depth: IntArray
    first_child: IntArray
    next_sibling: IntArray
    slot: IntArray
    """Shape (N,): the first slot that drew the node."""
    path: IntArray
    """Shape (K, L + 1): the nodes from the root to the end of each path."""
    draw: IntArray
    """Shape (K, L + 1): the slots that drew them."""

    @classmethod
    def merge(cls, shape: Shape, tokens: IntArray) -> DraftTree:
        """Merge the slots of equal prefixes.

        Parameters
        ----------
        shape : Shape
        tokens : ndarray of int, shape (shape.slots - 1,)
            The token of every slot but the root; `NONE` where the draft law had no more tokens to give.
        """
        token, parent, depth, slot = [NONE], [NONE], [0], [0]
        first_child, next_sibling = [NONE], [NONE]
        node = [0]
        for index, (drawn, above) in enumerate(zip(tokens.tolist(), shape.parent[1:].tolist(), strict=True), start=1):
            mother = node[above]
            if drawn == NONE or mother == NONE:
                node.append(NONE)
                continue
            last, child = NONE, first_child[mother]
            while child != NONE and token[child] != drawn:
                last, child = child, next_sibling[child]
            if child == NONE:
                child = len(token)
                if last == NONE:
                    first_child[mother] = child
                else:
                    next_sibling[last] = child
                for column, value in (
                    (token, drawn),
                    (parent, mother),
                    (depth, depth[mother] + 1),
                    (slot, index),
                    (first_child, NONE),
                    (next_sibling, NONE),
                ):
                    column.append(value)
            node.append(child)
        draws = shape.paths_of_slots
        paths = np.array(node)[draws]
        drawn_whole = paths[:, -1] != NONE
        columns = (np.array(column) for column in (token, parent, depth, first_child, next_sibling, slot))
        return cls(*columns, paths[drawn_whole], draws[drawn_whole])

    @property
    def nodes(self) -> int:
        """N."""
        return self.token.size

    @property
    def levels(self) -> int:
        """L."""
        return self.path.shape[1] - 1

    @property
    def inner(self) -> int:
        """Number of nodes above the last level."""
        return int((self.depth < self.levels).sum())

    @cached_property
    def lineage(self) -> BoolArray:
        """Shape (N, N): whether the second node is the first or one of its ancestors."""
        return lineage(self.parent)

    def line(self, node: int) -> list[int]:
        """The nodes below the root that lead to a node, itself the last."""
        nodes: list[int] = []
        while node > 0:
            nodes.append(node)
            node = int(self.parent[node])
        return nodes[::-1]

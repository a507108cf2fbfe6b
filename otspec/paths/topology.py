"""The tree of drafted prefixes: equal ones merged, children linked as first child and next sibling."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from otspec.laws import BoolArray, IntArray
from otspec.paths.shape import Shape, lineage

NONE = -1
"""No such node, or a slot without a token."""


@dataclass(frozen=True, eq=False)
class Topology:
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
    def merge(cls, shape: Shape, tokens: IntArray) -> Topology:
        """Merge the slots of equal prefixes.

        Parameters
        ----------
        shape : Shape
        tokens : ndarray of int, shape (shape.slots - 1,)
            The token of every slot but the root; `NONE` where the draft law had no more tokens to give.
        """
        nodes, node = [_Node(NONE, NONE, 0, 0)], [0]
        for slot, (token, above) in enumerate(zip(tokens.tolist(), shape.parent[1:].tolist(), strict=True), start=1):
            drawn = token != NONE and node[above] != NONE
            node.append(_child(nodes, node[above], token, slot) if drawn else NONE)
        path = np.array(node)[shape.paths_of_slots]
        whole = path[:, -1] != NONE
        columns = {column.name: np.array([getattr(one, column.name) for one in nodes]) for column in fields(_Node)}
        return cls(**columns, path=path[whole], draw=shape.paths_of_slots[whole])

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


@dataclass
class _Node:
    """A node while the tree grows."""

    token: int
    parent: int
    depth: int
    slot: int
    first_child: int = NONE
    next_sibling: int = NONE


def _child(nodes: list[_Node], parent: int, token: int, slot: int) -> int:
    """The child of a node that has this token; it is added if there is none."""
    last, child = NONE, nodes[parent].first_child
    while child != NONE:
        if nodes[child].token == token:
            return child
        last, child = child, nodes[child].next_sibling
    nodes.append(_Node(token, parent, nodes[parent].depth + 1, slot))
    added = len(nodes) - 1
    if last == NONE:
        nodes[parent].first_child = added
    else:
        nodes[last].next_sibling = added
    return added

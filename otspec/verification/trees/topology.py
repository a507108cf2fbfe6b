"""The tree of drafted prefixes: which tokens were drafted after which, equal prefixes merged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from otspec.laws import BoolArray, IntArray
from otspec.verification.trees.shape import Shape, lineage

NONE = -1
"""No such node, or a slot without a token."""


@dataclass(frozen=True, eq=False)
class Topology:
    """The distinct prefixes of drafted tokens, each one node.

    Node 0 is the root, the text so far.  Nodes are numbered level by level, in a level by the first slot that drew
    them: a parent comes before its children, and the `inner` nodes, those above the last level, come first.
    All arrays of shape (N,) hold one entry a node, `NONE` where a node has none.

    Examples
    --------
    Two paths that begin with the same token share its node.

    >>> import numpy as np
    >>> from otspec.verification import Shape, Topology
    >>> tree = Topology.merge(Shape.paths(2, 2), np.array([7, 7, 3, 5]))  # (7, 3) and (7, 5), level by level
    >>> print(tree.token, tree.parent)
    [-1  7  3  5] [-1  0  1  1]
    """

    token: IntArray
    """Shape (N,): the last token of each prefix."""
    parent: IntArray
    """Shape (N,): the prefix without that token; of the root `NONE`."""
    depth: IntArray
    """Shape (N,): how many tokens each prefix has."""
    slot: IntArray
    """Shape (N,): the first slot that drew the node; of an uneven shape, of those that have children if any has."""
    node: IntArray
    """Shape (K, L + 1): the node that each path reaches after 0 to L tokens; `NONE` behind the end of a shorter one."""
    draw: IntArray
    """Shape (K, L + 1): the slots that drew them, or `NONE`; paths of one number share one draw."""
    shape: Shape
    """How many children the slots of each level have."""

    @classmethod
    def merge(cls, shape: Shape, tokens: IntArray) -> Topology:
        """Merge the slots of equal prefixes.

        Parameters
        ----------
        shape : Shape
        tokens : ndarray of int, shape (shape.slots - 1,)
            The token of every slot but the root; `NONE` where the draft law had no more tokens to give.
        """
        token, parent, depth, first = [NONE], [NONE], [0], [0]
        known: dict[tuple[int, int], int] = {}
        reached, place = [0], shape.place.tolist()
        for slot, (drawn, above) in enumerate(zip(tokens.tolist(), shape.parent[1:].tolist(), strict=True), start=1):
            before = reached[above]
            if drawn == NONE or before == NONE:
                reached.append(NONE)
                continue
            node = known.setdefault((before, drawn), len(token))
            reached.append(node)
            if node == len(token):
                token.append(drawn)
                parent.append(before)
                depth.append(depth[before] + 1)
                first.append(slot)
            elif place[first[node]] < 0 <= place[slot]:
                first[node] = slot
        paths = np.array([*reached, NONE])[shape.paths_of_slots]
        whole = ((paths == NONE) == (shape.paths_of_slots == NONE)).all(axis=1)
        return Topology(
            np.array(token),
            np.array(parent),
            np.array(depth),
            np.array(first),
            paths[whole],
            shape.paths_of_slots[whole],
            shape,
        )

    @property
    def size(self) -> int:
        """N."""
        return self.token.size

    @property
    def count(self) -> int:
        """K."""
        return len(self.node)

    @property
    def length(self) -> int:
        """L."""
        return self.node.shape[1] - 1

    @cached_property
    def inner(self) -> int:
        """Number of prefixes of less than L tokens."""
        return int((self.depth < self.length).sum())

    @cached_property
    def drafted_after(self) -> IntArray:
        """The nodes after which tokens were drafted, ascending: of the inner ones all, but for uneven shapes."""
        inner = np.arange(self.inner)
        return inner[self.shape.place[self.slot[inner]] >= 0] if self.shape.each else inner

    @cached_property
    def lineage(self) -> BoolArray:
        """Shape (N, N): whether the second node is the first or one of its ancestors."""
        return lineage(self.parent)

    @cached_property
    def children(self) -> list[IntArray]:
        """The children of each node, ascending: N arrays of shape (children,)."""
        order = np.argsort(self.parent, kind="stable")
        return np.split(order, np.searchsorted(self.parent[order], np.arange(self.size)))[1:]

    @cached_property
    def node_of(self) -> dict[tuple[int, int], int]:
        """The node of each prefix but the root, by the node that it follows and its last token."""
        below = zip(self.parent[1:].tolist(), self.token[1:].tolist(), strict=True)
        return {draft: node for node, draft in enumerate(below, start=1)}

    @cached_property
    def first_child(self) -> IntArray:
        """Shape (N,)."""
        first = np.full(self.size, NONE)
        first[self.parent[:0:-1]] = np.arange(self.size - 1, 0, -1)  # of several the last, the lowest number, stays
        return first

    @cached_property
    def next_sibling(self) -> IntArray:
        """Shape (N,)."""
        following = np.full(self.size, NONE)
        order = np.argsort(self.parent, kind="stable")
        together = self.parent[order[:-1]] == self.parent[order[1:]]
        following[order[:-1][together]] = order[1:][together]
        return following

    def line(self, node: int) -> list[int]:
        """The nodes below the root that lead to a node, itself the last."""
        nodes: list[int] = []
        while node > 0:
            nodes.append(node)
            node = int(self.parent[node])
        return nodes[::-1]

    def drafts(self, alive: IntArray, level: int) -> IntArray:
        """The tokens drawn at a level for some of the paths, in the order of drawing: as many as there were draws.

        Parameters
        ----------
        alive : ndarray of int, shape (paths,)
            Which paths, of K.
        level : int
            1 to L.

        Returns
        -------
        ndarray of int, shape (draws,)
        """
        first = np.unique(self.draw[alive, level], return_index=True)[1]
        return self.token[self.node[alive[first], level]]

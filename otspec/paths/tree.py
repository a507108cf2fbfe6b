"""K drafted paths of L tokens, merged into the tree of their prefixes, with both models' laws at its nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray, IntArray, as_law, draw

Prefix = tuple[int, ...]
Law = Callable[[Prefix], Any]
"""Next-token probabilities, shape (V,), after a prefix: what a language model is."""


@dataclass(frozen=True, eq=False)
class Tree:
    """The prefixes of the drafted paths, each once.

    Node 0 is the root, the empty prefix.  Nodes are numbered level by level, so a parent comes before its children,
    and those before the last level, the `inner` ones, come first.
    """

    node: IntArray
    """Shape (K, L + 1): the node that each path reaches after 0 to L tokens."""
    parent: IntArray
    """Shape (N,): -1 for the root."""
    token: IntArray
    """Shape (N,): the last token of each prefix, -1 for the root."""
    target: FloatArray
    """Shape (N, V): target law after each prefix."""
    draft: FloatArray
    """Shape (inner, V): draft law after each prefix of less than L tokens."""
    draw: IntArray | None = None
    """Shape (K, L + 1): at each level, paths of one number share one draw.  None: each path drew its own tokens."""

    @classmethod
    def of(cls, paths: Any, target: Law, draft: Law) -> Tree:
        """Merge paths and ask the models for the laws that verification needs, once at each node.

        Parameters
        ----------
        paths : array_like of int, shape (K, L)
            Drafted paths, K, L >= 1, every token drawn from `draft` after the tokens before it.
        target, draft : callable
            Prefix, a tuple of ints, to the law of the next token, checked and scaled as in `otspec.laws.as_law`.

        Raises
        ------
        ProblemError
            If the paths are no such array, a law is none, or a token could not have been drafted.
        """
        paths = np.asarray(paths)
        if paths.ndim != 2 or 0 in paths.shape or not np.issubdtype(paths.dtype, np.integer):
            raise ProblemError(
                f"paths are {paths.dtype} of shape {paths.shape}; K paths of L tokens are integers of shape (K, L)"
            )
        count, length = paths.shape
        node = np.zeros((count, length + 1), dtype=np.int64)
        prefixes: list[Prefix] = [()]
        parent = [-1]
        inner = 1
        for level in range(1, length + 1):
            inner = len(prefixes)
            found: dict[Prefix, int] = {}
            for k, path in enumerate(paths.tolist()):
                prefix = tuple(path[:level])
                if prefix not in found:
                    found[prefix] = len(prefixes)
                    prefixes.append(prefix)
                    parent.append(int(node[k, level - 1]))
                node[k, level] = found[prefix]
        laws = [as_law(f"target{prefix}", target(prefix)) for prefix in prefixes]
        drafts = [as_law(f"draft{prefix}", draft(prefix)) for prefix in prefixes[:inner]]
        if len({law.size for law in laws + drafts}) > 1:
            raise ProblemError(
                f"laws have {sorted({law.size for law in laws + drafts})} tokens; all need one vocabulary"
            )
        token = np.array([prefix[-1] if prefix else -1 for prefix in prefixes])
        for above, prefix in zip(parent[1:], prefixes[1:], strict=True):
            if not (0 <= prefix[-1] < laws[0].size and drafts[above][prefix[-1]] > 0):
                raise ProblemError(
                    f"token {prefix[-1]} after {prefix[:-1]} has draft probability 0; it was not drafted"
                )
        return cls(node, np.array(parent), token, np.array(laws), np.array(drafts))

    @property
    def count(self) -> int:
        """K."""
        return len(self.node)

    @property
    def length(self) -> int:
        """L."""
        return self.node.shape[1] - 1

    @property
    def inner(self) -> int:
        """Number of prefixes of less than L tokens."""
        return len(self.draft)

    @cached_property
    def children(self) -> list[IntArray]:
        """The children of each node."""
        order = np.argsort(self.parent, kind="stable")
        return np.split(order, np.searchsorted(self.parent[order], np.arange(len(self.parent))))[1:]

    def drafts(self, alive: IntArray, level: int) -> IntArray:
        """The tokens drawn at a level for some of the paths, in the order of drawing: as many as there were draws."""
        nodes = self.node[alive, level]
        if self.draw is not None:
            nodes = nodes[np.unique(self.draw[alive, level], return_index=True)[1]]
        return self.token[nodes]

    def prefix(self, node: int) -> Prefix:
        """The tokens that lead to a node."""
        tokens: list[int] = []
        while node > 0:
            tokens.append(int(self.token[node]))
            node = int(self.parent[node])
        return tuple(reversed(tokens))


@dataclass(frozen=True)
class Model:
    """A target and a draft language model, as callables."""

    target: Law
    draft: Law

    def tree(self, paths: Any) -> Tree:
        """Drafted paths, shape (K, L), with the laws that verification needs."""
        return Tree.of(paths, self.target, self.draft)

    def sample(self, count: int, length: int, rng: np.random.Generator) -> IntArray:
        """Draft `count` independent paths, shape (count, length)."""
        paths = np.empty((count, length), dtype=np.int64)
        for k in range(count):
            for i in range(length):
                paths[k, i] = draw(np.asarray(self.draft(tuple(paths[k, :i].tolist()))), rng)
        return paths

"""What was drafted for a batch of texts: trees of tokens, and the laws that these were drawn from, or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import pad

from otspec.decode.base.transfers import to_device
from otspec.laws import IntArray
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import NONE, Topology


class Drawn(NamedTuple):
    """The part of a tree that its drafter drafted; the rest of it is fixed paths beside that."""

    tree: Topology
    node: IntArray
    """Shape (tree.size,): the node of the whole tree that each of its nodes is."""


@dataclass(frozen=True, eq=False)
class Drafts:
    """What was drafted for a batch of texts."""

    trees: Sequence[Topology]
    laws: torch.Tensor
    """Shape (R, V), or (R, k) for `columns`, float64, on the device: draft laws at the nodes of all trees that tokens
    were drafted after, one tree after the other.  No rows of fixed drafts: `otspec.verification.Match` verifies them,
    on the device."""
    support: int | None = None
    """How many tokens a law is expected to have at most; None for all."""
    rows: Sequence[IntArray] | None = None
    """Where paths of one node are drafted by different laws: of each tree, shape (K, L), the row of `laws` that every
    token of every path was drawn from."""

    columns: torch.Tensor | None = None
    """The tokens that laws are over, ascending, shape (k,), where all are over the same; None: all tokens."""
    drawn: Sequence[Drawn] | None = None
    """What the drafter drafted, `laws` and `rows` being of it, where fixed paths are beside; None: the whole trees."""

    def with_fixed(self, paths: Sequence[Sequence[Sequence[int]]]) -> Drafts:
        """The same with fixed paths beside them, merged where they begin alike.

        Parameters
        ----------
        paths : sequence of sequences of sequences of int
            Of each text, of any lengths; they depend on the text alone.
        """
        if not any(paths):
            return self
        whole = [_merged([*_to_leaves(tree), *own]) for tree, own in zip(self.trees, paths, strict=True)]
        drawn = [Drawn(tree, _nodes_in(one, tree)) for one, tree in zip(whole, self.trees, strict=True)]
        return replace(self, trees=whole, drawn=drawn)

    def without_fixed(self) -> Drafts:
        """What the drafter drafted alone."""
        return self if self.drawn is None else replace(self, trees=[part.tree for part in self.drawn], drawn=None)

    def over(self, vocab: int) -> torch.Tensor:
        """The laws over all of so many tokens, shape (R, V)."""
        return _over(vocab, self.laws, self.columns)

    @classmethod
    def none(cls, texts: int, vocab: int, device: torch.device) -> Drafts:
        """No drafts for so many texts."""
        return cls([_root()] * texts, torch.empty(0, vocab, dtype=torch.float64, device=device))

    @classmethod
    def fixed(cls, paths: Sequence[Sequence[Sequence[int]]]) -> Drafts:
        """Drafts that were drawn from no law: of each text its paths, of any lengths, merged where they begin alike."""
        return cls.fixed_trees([_merged(own) for own in paths])

    @classmethod
    def fixed_trees(cls, trees: Sequence[Topology]) -> Drafts:
        """The same as trees."""
        return cls(trees, torch.empty(0, 0, dtype=torch.float64))

    @property
    def nodes(self) -> IntArray:
        """Shape (R,): the node that each law belongs to, nodes counted one tree after the other."""
        start = np.cumsum([0, *(tree.size for tree in self.trees)])
        if self.rows is None:
            return np.concatenate([at + tree.drafted_after for at, tree in zip(start, self.trees, strict=False)])
        nodes = np.empty(len(self.laws), dtype=np.int64)
        for at, tree, rows in zip(start, self.trees, self.rows, strict=False):
            nodes[rows] = at + tree.node[:, :-1]
        return nodes


class Launched(NamedTuple):
    """Drafts in all slots of an even shape, of which the host has seen none."""

    shape: Shape
    tokens: torch.Tensor
    """Shape (B, S - 1): of every slot but the root, on the device."""
    laws: torch.Tensor
    """Shape (B, I, V), or (B, I, k) for `columns`: draft laws after the slots that have children."""
    columns: torch.Tensor | None
    """As in `Drafts`."""
    see: Callable[[], Drafts]
    """Waits for the tokens, and merges equal prefixes; called once."""

    def over(self, vocab: int) -> torch.Tensor:
        """The laws over all of so many tokens, shape (B I, V)."""
        return _over(vocab, self.laws.flatten(0, 1), self.columns)


class AcceptedSlots(NamedTuple):
    """What verification accepted, on the device, before the host knows."""

    slots: torch.Tensor
    """Shape (B, L): of the accepted tokens, padded with -1."""
    token: torch.Tensor
    """Shape (B,): the token after them."""


Reading = Callable[[Shape, torch.Tensor, torch.Tensor], AcceptedSlots]
"""Takes the shape of drafts, their tokens, (B, S - 1), and what came out of verification, to what was accepted."""


class Outcome(NamedTuple):
    """What came out of verification, on the device, where slots can be made of it early."""

    came: torch.Tensor
    """Shape (B, ...)."""
    read: Reading


def _over(vocab: int, laws: torch.Tensor, columns: torch.Tensor | None) -> torch.Tensor:
    return laws if columns is None else laws.new_zeros(len(laws), vocab).index_copy_(1, columns, laws)


def first_of_prefixes(shape: Shape, tokens: torch.Tensor) -> torch.Tensor:
    """The first slot that has the prefix of each, without a synchronisation.

    Parameters
    ----------
    shape : Shape
        An even one of S slots.
    tokens : Tensor of int, shape (B, S - 1)
        Of every slot but the root.

    Returns
    -------
    Tensor of int, shape (B, S)
    """
    prefix = pad(tokens, (1, 1), value=NO_TOKEN)[:, _lines(shape, tokens.device)]
    same = (prefix.unsqueeze(2) == prefix.unsqueeze(1)).all(dim=-1)
    return same.int().argmax(dim=-1)  # of several ones, the first


NO_TOKEN = -2
"""In a prefix, behind its end: neither a token nor `NONE`, where a law had no more to give."""


@cache
def _lines(shape: Shape, device: torch.device) -> torch.Tensor:
    """The slots that lead to each, level by level, shape (S, L + 1), and S behind its end; cached for good."""
    lines = np.full((shape.slots, shape.depth + 1), shape.slots)
    for slot, level in enumerate(shape.level):
        lines[slot, : level + 1] = np.flatnonzero(shape.lineage[slot])
    return to_device(lines, device)


@cache
def _root() -> Topology:
    """A tree without drafts: what a step of plain decoding has, made once."""
    return Topology.merge(Shape(()), np.empty(0, dtype=np.int64))


def _merged(paths: Sequence[Sequence[int]]) -> Topology:
    """The tree of these paths; without any it is the root alone."""
    longest = max(map(len, paths), default=0)
    if not longest:
        return _root()
    tokens = np.full((longest, len(paths)), NONE)
    for column, path in enumerate(paths):
        tokens[: len(path), column] = path
    return Topology.merge(Shape.paths(len(paths), longest), tokens.ravel())


def _to_leaves(tree: Topology) -> list[list[int]]:
    """The tokens of each path from the root to a leaf, the root left out."""
    leaves = np.setdiff1d(np.arange(1, tree.size), tree.parent)
    return [tree.token[tree.line(leaf)].tolist() for leaf in leaves.tolist()]


def _nodes_in(whole: Topology, tree: Topology) -> IntArray:
    """The nodes of a tree that has all prefixes of another one, by the nodes of that, shape (tree.size,)."""
    node = np.zeros(tree.size, dtype=np.int64)
    for at, (parent, token) in enumerate(zip(tree.parent[1:].tolist(), tree.token[1:].tolist(), strict=True), start=1):
        node[at] = whole.node_of[int(node[parent]), token]
    return node


def max_support(*supports: int | None) -> int | None:
    """How many tokens any of several laws has at most; None where one of them has all."""
    counted = [support for support in supports if support is not None]
    return max(counted, default=None) if len(counted) == len(supports) else None

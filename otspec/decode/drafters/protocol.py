"""What a drafter answers: trees of tokens, and the laws that they were drawn from, or none for fixed drafts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch

from otspec.decode.models.context import Pass
from otspec.laws import IntArray
from otspec.paths.shape import Shape
from otspec.paths.topology import NONE, Topology


@dataclass(frozen=True, eq=False)
class Drafts:
    """What was drafted for a batch of texts."""

    trees: Sequence[Topology]
    laws: torch.Tensor
    """Shape (R, V), float64, on the device: draft laws at the inner nodes of all trees, one tree after the other.
    No rows of fixed drafts: `otspec.paths.Match` verifies them, on the device."""
    support: int | None = None
    """How many tokens a law is expected to keep at most; None for all."""
    rows: Sequence[IntArray] | None = None
    """Where paths of one node are drafted by different laws: of each tree, shape (K, L), the row of `laws` that every
    token of every path was drawn from."""

    @classmethod
    def none(cls, texts: int, vocab: int, device: torch.device) -> Drafts:
        """No drafts for so many texts."""
        root = Topology.merge(Shape(()), np.empty(0, dtype=np.int64))
        return cls([root] * texts, torch.empty(0, vocab, dtype=torch.float64, device=device))

    @classmethod
    def fixed(cls, paths: Sequence[Sequence[Sequence[int]]]) -> Drafts:
        """Drafts that were drawn from no law: of each text its paths, of any lengths, merged where they begin alike."""
        return cls([_merged(own) for own in paths], torch.empty(0, 0, dtype=torch.float64))

    @property
    def nodes(self) -> IntArray:
        """Shape (R,): the node that each law belongs to, nodes counted one tree after the other."""
        start = np.cumsum([0, *(tree.size for tree in self.trees)])
        if self.rows is None:
            return np.concatenate([at + np.arange(tree.inner) for at, tree in zip(start, self.trees, strict=False)])
        nodes = np.empty(len(self.laws), dtype=np.int64)
        for at, tree, rows in zip(start, self.trees, self.rows, strict=False):
            nodes[rows] = at + tree.node[:, :-1]
        return nodes


def _merged(paths: Sequence[Sequence[int]]) -> Topology:
    """The tree of these paths; without any it is the root alone."""
    longest = max(map(len, paths), default=0)
    if not longest:
        return Topology.merge(Shape(()), np.empty(0, dtype=np.int64))
    tokens = np.full((longest, len(paths)), NONE)
    for column, path in enumerate(paths):
        tokens[: len(path), column] = path
    return Topology.merge(Shape.paths(len(paths), longest), tokens.ravel())


class Drafter(Protocol):
    """Something that proposes how texts go on."""

    @property
    def passes(self) -> Sequence[Pass]:
        """The passes of its model so far, prompts apart; none without a model."""

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Read the prompts."""

    def draft(self, texts: Sequence[Sequence[int]], depth: int) -> Drafts:
        """Draft at most `depth` >= 1 tokens a path, after each of the texts."""

    def depth(self, lengths: IntArray) -> int:
        """How many tokens a path may have after texts of these lengths; 0 if no draft is to be made."""

    def settle(self, accepted: Sequence[Sequence[int]], rows: Sequence[int]) -> None:
        """What became of the drafts: the slots of each text's accepted tokens, and which texts go on."""


@runtime_checkable
class Watching(Protocol):
    """A drafter that also looks at what the target thinks."""

    @property
    def layers(self) -> Sequence[int]:
        """After how many of the target's layers: from 0, its embedding, to all of them."""

    def watch(self, features: Sequence[torch.Tensor]) -> None:
        """Hidden states of the target, told before `start` and after every `settle`.

        Parameters
        ----------
        features : sequence of Tensors, shape (tokens, layers, width)
            For each text at its tokens since the last call, in order: first of its prompt, then of the last token of
            the text before the step and of what was accepted.  Those of the text's last token are never there: the
            target has not read it.
        """


@runtime_checkable
class Listening(Protocol):
    """A drafter of fixed drafts that learns from all that the target says, on drafts that become no text as well."""

    def hear(self, trees: Sequence[Topology], tokens: Sequence[int]) -> None:
        """Take the tokens that the target put after each node of all trees, one tree after the other."""

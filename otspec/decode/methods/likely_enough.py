"""Rules that accept drafts which are likely enough under the target's law.  Lossy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from scipy.special import entr

from otspec.laws import BoolArray, FloatArray, Seed, as_generator, draw
from otspec.settings import Range, check
from otspec.verification import PathVerification, Tree

Share = Annotated[float, Range(0, 1, "it is in (0, 1]", open=True)]


class LikelyEnough(ABC):
    """Accept the longest drafted prefix whose tokens are all likely enough, of prefixes of one length the first."""

    greedy: ClassVar[bool] = False
    """Whether the token after them, or without drafts, is the target's likeliest, and not drawn."""

    @property
    def exchangeable(self) -> bool:
        """Of prefixes of one length the first drafted is taken."""
        return False

    @abstractmethod
    def accepts(self, target: FloatArray) -> BoolArray:
        """Whether each token is likely enough under the target laws of N nodes, both of shape (N, V)."""

    def verify(self, tree: Tree, rng: Seed) -> PathVerification:
        """Accept, and draw the next token."""
        node, accepted = self._longest(tree)
        return PathVerification(node, accepted, int(draw(self._after(tree.target[node]), as_generator(rng, 1))))

    def stop_law(self, tree: Tree) -> FloatArray:
        """Exact law of the verdict given the tree, shape (N, V)."""
        law = np.zeros_like(tree.target)
        node, _ = self._longest(tree)
        law[node] = self._after(tree.target[node])
        return law

    def _after(self, target: FloatArray) -> FloatArray:
        """Law of the token after the accepted ones, shape (V,)."""
        return np.eye(1, target.size, int(target.argmax()))[0] if self.greedy else target

    def _longest(self, tree: Tree) -> tuple[int, int]:
        """The accepted node, and its number of tokens."""
        likely = self.accepts(tree.target)[tree.node[:, :-1], tree.token[tree.node[:, 1:]]]
        accepted = np.logical_and.accumulate(likely, axis=1).sum(axis=1)
        path = int(accepted.argmax())
        return int(tree.node[path, accepted[path]]), int(accepted[path])


@dataclass(frozen=True)
class Typical(LikelyEnough):
    """Typical acceptance: tokens of p(x) > min(epsilon, delta exp(-H(p))) [cai2024medusa].

    H is the entropy of the target law there.  The text does not have the target's law.

    Parameters
    ----------
    epsilon, delta : float
        In (0, 1]; the paper takes delta = sqrt(epsilon).

    Raises
    ------
    ProblemError
        If one is out of its range.
    """

    epsilon: Share = 0.09
    delta: Share = 0.3

    def __post_init__(self) -> None:
        check(self)

    def accepts(self, target: FloatArray) -> BoolArray:
        """Above the threshold of each node."""
        threshold = np.minimum(self.epsilon, self.delta * np.exp(-entr(target).sum(axis=1)))
        return target > threshold[:, None]


@dataclass(frozen=True)
class GreedyLenience(LikelyEnough):
    """Lenience in greedy texts: tokens of p(x) >= l max(p), and after them the likeliest token.

    p is the target's law before it is made greedy, so the run has a temperature above 0, usually 1, and the drafts are
    the likeliest tokens, ``draft_temperature=0`` [leviathan2023fast, appendix A.5; aarnphm2025speculative, note on
    greedy decoding].  With l = 1 the text is that of greedy decoding.

    Parameters
    ----------
    lenience : float
        l, in (0, 1].

    Raises
    ------
    ProblemError
        If it is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from otspec.decode.methods import GreedyLenience
    >>> from otspec.verification import Tree
    >>> p = np.array([0.6, 0.3, 0.1])
    >>> tree = Tree.of([[1, 2]], lambda prefix: p, lambda prefix: p)
    >>> GreedyLenience(0.5).verify(tree, rng=0)  # token 1 is half as likely as 0, and 2 is not
    PathVerification(node=1, accepted=1, token=0)
    """

    lenience: Share = 0.7
    greedy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check(self)

    def accepts(self, target: FloatArray) -> BoolArray:
        """At least l times as likely as the likeliest token of each node."""
        return target >= self.lenience * target.max(axis=1, keepdims=True)

"""Lossy rules for a drafted path: how far they get, and the total variation of the text that they put out.

All verify the first path alone.  What a rule puts out is continued by the target: a lossless one gives target text.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import entr

from otspec.auditing.decoder_rules import Rule, ratio, residual
from otspec.auditing.lossy_rules import LOSSY
from otspec.errors import ProblemError
from otspec.laws import FloatArray, Seed, as_count, as_generator, draw
from otspec.paths import Block, Model, PathVerification, PathVerifier, Tree, path_law
from otspec.verification.reference.enumeration import text_law

MOST = 2.0**500
"""A larger weight belongs to a path that is never drafted."""


class FirstPath(ABC):
    """Base of the rules: a verdict is drawn from its law."""

    @property
    def exchangeable(self) -> bool:
        """The other paths are not looked at."""
        return False

    @abstractmethod
    def stop_law(self, tree: Tree) -> FloatArray:
        """Exact law of the verdict given the tree, shape (N, V)."""

    def verify(self, tree: Tree, rng: Seed) -> PathVerification:
        """Draw a verdict."""
        law = self.stop_law(tree)
        node, token = divmod(int(draw(law.ravel(), as_generator(rng, 1))), law.shape[1])
        return PathVerification(node, len(tree.line(node)), token)


@dataclass(frozen=True)
class TokenByToken(FirstPath):
    """A rule for one draft, token by token until one is refused."""

    rule: Rule

    def stop_law(self, tree: Tree) -> FloatArray:
        """As of the base, shape (N, V)."""
        law, alive, nodes = np.zeros_like(tree.target), 1.0, tree.node[0]
        for node, below in itertools.pairwise(nodes):
            tests, last = self.rule(tree.target[node], tree.draft[node], tree.token[[below]])
            refused = float(np.prod([1.0 - chance for _, chance in tests]))
            law[node] = alive * refused * last
            alive *= 1.0 - refused
        law[nodes[-1]] = alive * tree.target[nodes[-1]]
        return law


@dataclass(frozen=True)
class FLy(FirstPath):
    """Speculative sampling that keeps a refused draft where the target is unsure and the next drafts pass [li2025fly].

    This is vLLM's `rejection_sample_method="fly"` for drafts that are drawn.  A refused draft is kept if its p is above
    0, the entropy of p's three largest entries is at least `threshold`, and the next `window` drafts, all of which have
    to be there, pass the test of speculative sampling.

    Parameters
    ----------
    window : int
        W; in vLLM 6, or one less than there are drafts.
    threshold : float
        In nats.

    Raises
    ------
    ProblemError
        If the window is no number of drafts.
    """

    window: int = 6
    threshold: float = 0.3

    def __post_init__(self) -> None:
        as_count("window", self.window)

    def stop_law(self, tree: Tree) -> FloatArray:
        """As of the base, shape (N, V): once a refused draft is kept, the window after it is known to pass."""
        passes, kept = self._chances(tree)
        law, nodes = np.zeros_like(tree.target), tree.node[0]
        fresh = np.eye(1, len(nodes))[0]  # P(all drafts before are accepted, and nothing is known of those that follow)
        for i, node in enumerate(nodes[:-1]):
            law[node] = fresh[i] * (1.0 - passes[i] - kept[i]) * residual(tree.target[node], tree.draft[node])
            fresh[i + 1] += fresh[i] * passes[i]
            if kept[i] > 0:
                fresh[i + 1 + self.window] += fresh[i] * kept[i]
        law[nodes[-1]] = fresh[-1] * tree.target[nodes[-1]]
        return law

    def paid(self, tree: Tree) -> float:
        """P(a refused draft is kept): the text is off by its mean over drafted trees at most."""
        passes, kept = self._chances(tree)
        return float(np.append(1.0, np.cumprod(passes[:-1])) @ kept)

    def _chances(self, tree: Tree) -> tuple[FloatArray, FloatArray]:
        """P(a draft passes the test), and P(it does not, and is kept if all before it are accepted), shapes (L,)."""
        before, tokens, steps = tree.node[0, :-1], tree.token[tree.node[0, 1:]], np.arange(tree.length)
        p, q = tree.target[before, tokens], tree.draft[before, tokens]
        passes = np.array([ratio(*pair) for pair in zip(p, q, strict=True)])
        unsure = entr(np.sort(tree.target[before], axis=1)[:, -3:]).sum(axis=1) >= self.threshold
        after = np.array([np.prod(passes[i + 1 : i + 1 + self.window]) for i in steps])
        return passes, (1.0 - passes) * after * ((p > 0) & unsure & (steps + self.window < tree.length))


@dataclass(frozen=True)
class AllOrBlock(FirstPath):
    """Block verification that accepts all drafts where it would stop early, at random: L tokens by the price at first.

    What it does not put out where it would have stopped is missing in the text, and makes room for other drafts there,
    so that weights exceed 1 (`docs/theory/lossy.md`, Theorem 6).

    Parameters
    ----------
    depth : float
        It accepts all where it would accept fewer drafts than that, and where it would accept i with i < depth < i + 1,
        with probability depth - i.  With 0 it is block verification, with L it accepts whatever is drafted.

    Raises
    ------
    ProblemError
        If it is negative.
    """

    depth: float

    def __post_init__(self) -> None:
        if not self.depth >= 0:
            raise ProblemError(f"depth is {self.depth}; pass a number of drafts, 0 or more")

    def stop_law(self, tree: Tree) -> FloatArray:
        """As of the base, shape (N, V)."""
        law, nodes = self._early(tree), tree.node[0]
        law[nodes[-1]] += self.paid(tree) * tree.target[nodes[-1]]
        law[nodes[:-1]] *= 1.0 - self._shares(tree.length)[:, None]
        return law

    def paid(self, tree: Tree) -> float:
        """P(it accepts all where it would stop early): in the mean over drafted trees the text is off by that at most.

        With a depth of 1 at most, by exactly that.
        """
        return float(self._shares(tree.length) @ self._early(tree)[tree.node[0, :-1]].sum(axis=1))

    def _shares(self, length: int) -> FloatArray:
        """How often it accepts all in place of i drafts, shape (L,)."""
        return np.clip(self.depth - np.arange(length), 0.0, 1.0)

    def _early(self, tree: Tree) -> FloatArray:
        """Where it would stop, shape (N, V): from the end upwards, as block verification by its weights."""
        law, nodes, weights, alive = np.zeros_like(tree.target), tree.node[0], self._weights(tree), 1.0
        for i, node in reversed(list(enumerate(nodes))):
            refused = 1.0 - min(weights[i], 1.0)
            last, stops = tree.target[node], 1.0 - refused
            if i < tree.length:
                room = np.maximum(weights[i] * last - tree.draft[node], 0.0)
                stops = room.sum() / (room.sum() + refused) if refused > 0 else 1.0
                last = room / room.sum() if room.any() else last
            law[node] = alive * stops * last
            alive *= 1.0 - stops
        return law

    def _weights(self, tree: Tree) -> FloatArray:
        """w_i, shape (L + 1,), of which P(i drafts or more | these were drafted) is made: it is min(1, w_i)."""
        weights = np.ones(tree.length + 1)
        for i, (node, below) in enumerate(itertools.pairwise(tree.node[0])):
            more = weights[i] * tree.target[node] - tree.draft[node]
            room, refused = more[more > 0].sum(), -more[more < 0].sum()
            filled = (1.0 - self._shares(tree.length)[i]) * (min(refused / room, 1.0) if room > 0 else 1.0)
            token = tree.token[below]
            ratio = weights[i] * tree.target[node, token] / tree.draft[node, token]
            weights[i + 1] = min(ratio, filled + (1.0 - filled) * ratio, MOST)
        return weights


class PathFigures(NamedTuple):
    """How far a rule gets with one drafted path, and what its text is off by."""

    accepted: float
    """Mean number of accepted tokens."""
    block: float
    """The same of block verification, which is the most that a lossless rule has."""
    tv: float
    """Total variation of the text, continued by the target, to the target's."""
    most: float
    """The most that any rule accepts at that total variation: `most_accepted`."""


BY_TOKENS = ("speculative sampling", "lenience 0.7", "lenience 0.3", "ensemble 0.5", "Cactus, delta = 0.1")

LOSSY_PATHS: Mapping[str, PathVerifier] = {
    "block verification": Block(),
    **{f"{name}, token by token": TokenByToken(LOSSY[name].rule) for name in BY_TOKENS},
    **{f"FLy, window {window}": FLy(window) for window in (1, 2, 6)},
    **{f"all or block, depth {depth:g}": AllOrBlock(depth) for depth in (0.1, 0.5, 1.0, 2.0)},
}
"""Two lossless rules, and lossy ones."""


def prefix_distances(model: Model, length: int) -> FloatArray:
    """Total variation of a text's and a draft's first i tokens, i = 1 to L: shape (L,)."""
    vocab = np.size(model.target(()))
    apart = text_law(model.target, vocab, length) - text_law(model.draft, vocab, length)
    return np.array([np.abs(apart.reshape(vocab**i, -1).sum(axis=1)).sum() / 2 for i in range(1, length + 1)])


def most_accepted(distances: FloatArray, price: float) -> float:
    """The largest mean number of accepted tokens of one path at a total variation of the text.

    It is the sum over i of min(1, 1 - D_i + price), whatever the rule knows (`docs/theory/lossy.md`, Theorem 5).

    Parameters
    ----------
    distances : ndarray, shape (L,)
        `prefix_distances`.
    price : float

    Examples
    --------
    >>> from otspec.auditing.lossy_paths import most_accepted, prefix_distances
    >>> from otspec.paths import synthetic
    >>> distances = prefix_distances(synthetic("tiny", vocab=3), length=3)
    >>> [round(most_accepted(distances, price), 3) for price in (0.0, 0.1, 1.0)]
    [1.146, 1.446, 3.0]
    """
    return float(np.minimum(1.0 - distances + price, 1.0).sum())


def measure_paths(rule: PathVerifier, model: Model, length: int) -> PathFigures:
    """The figures of a rule in a small model, by enumeration of all paths and texts.

    Parameters
    ----------
    rule : PathVerifier
    model : Model
    length : int
        Drafted tokens L of the path.

    Raises
    ------
    ProblemError
        As `otspec.paths.path_law`.
    """
    found = path_law(rule, model, 1, length)
    tv = found.deviation / 2
    block = path_law(Block(), model, 1, length).mean_accepted
    return PathFigures(found.mean_accepted, block, tv, most_accepted(prefix_distances(model, length), tv))

"""Pick the next token of the picked path level by level, by the interval rule; then block-verify the path."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from otspec.laws import FloatArray, IntArray, Seed, as_generator
from otspec.verification.rules.block.block import Picked, PickVerifier
from otspec.verification.rules.nested.labels import ChildPlaces, Owned, label_of, owned_by, place_at, whole
from otspec.verification.rules.nested.sharing import PLAIN, refine
from otspec.verification.rules.nested.winning import largest
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.tree import Tree


@dataclass(frozen=True)
class PickThenBlock(PickVerifier):
    """At each node of the picked path, all survivors show a fresh label for their next token; the largest is picked.

    How many paths survive depends on the drafts.  The proposal is the law of the picked path over all of that, so the
    law of the number of survivors is carried along; the labels of n survivors are measured with its mean of n u**(n-1).
    Where each survivor has b children, b n labels are shown.  Needs the laws along the picked path only.

    Examples
    --------
    >>> from otspec.paths import Block, PickThenBlock, accepted_length, synthetic
    >>> model = synthetic("mixed", vocab=50)
    >>> one = accepted_length(Block(), model, (1, 1), samples=50)
    >>> four = accepted_length(PickThenBlock(), model, (4, 1), samples=50)  # along the same texts
    >>> one.value < four.value
    True
    """

    def pick(self, tree: Tree, rng: Seed) -> Picked:
        """Pick token by token; which of the paths that share them does not matter."""
        rng, alive = as_generator(rng, 1), np.arange(tree.count)
        proposal, counts = np.empty((tree.length, tree.target.shape[1])), np.ones(1)
        for i in range(tree.length):
            node, counts = tree.node[alive[0], i], _children(counts, tree.shape.branching[i])
            places = refine(tree.target[node], tree.draft[node], counts, whole(), 1.0, PLAIN)
            proposal[i] = places.proposal
            tokens = tree.drafts(alive, i + 1).tolist()
            owned = {token: owned_by(places, token) for token in set(tokens)}
            shown = [place_at(owned[token], rng.random()) for token in tokens]
            winner = max(range(len(tokens)), key=shown.__getitem__)
            counts = survivors(owned[tokens[winner]], tree.draft[node, tokens[winner]], places, counts)
            alive = alive[tree.token[tree.node[alive, i + 1]] == tokens[winner]]
        return Picked(int(alive[0]), proposal)

    def along(self, target: FloatArray, draft: FloatArray, tokens: IntArray, shape: Shape) -> FloatArray:
        """Proposal laws, shape (L, V), of the tokens of a picked path: as `LabelVerifier.along`."""
        proposal, counts = np.empty_like(draft), np.ones(1)
        for i, token in enumerate(tokens.tolist()):
            counts = _children(counts, shape.branching[i])
            places = refine(target[i], draft[i], counts, whole(), 1.0, PLAIN)
            proposal[i] = places.proposal
            counts = survivors(owned_by(places, token), draft[i, token], places, counts)
        return proposal

    def picks(self, tree: Tree) -> tuple[FloatArray, list[FloatArray]]:
        """Exact probability of picking each path, shape (K,), equal ones sharing it, and the proposals along each."""
        weights = np.zeros(tree.count)
        proposals: list[FloatArray] = [np.empty(0)] * tree.count
        self._go_on(tree, weights, proposals, 1.0, np.arange(tree.count), np.ones(1), [])
        return weights, proposals

    def _go_on(
        self,
        tree: Tree,
        weights: FloatArray,
        proposals: list[FloatArray],
        chance: float,
        alive: IntArray,
        counts: FloatArray,
        laws: list[FloatArray],
    ) -> None:
        """Fill in what follows once the picked path is one of those alive."""
        if len(laws) == tree.length:
            for path in alive:
                weights[path], proposals[path] = chance / alive.size, np.array(laws)
            return
        i = len(laws)
        node, counts = tree.node[alive[0], i], _children(counts, tree.shape.branching[i])
        places = refine(tree.target[node], tree.draft[node], counts, whole(), 1.0, PLAIN)
        drafts = tree.drafts(alive, i + 1)
        owned = {token: owned_by(places, token) for token in np.unique(drafts).tolist()}
        label = {token: label_of(mine, places, whole()) for token, mine in owned.items()}
        chances = largest([[label[token]] * drafts.size for token in drafts.tolist()])
        for token, mine in owned.items():
            part = chance * chances[drafts == token].sum()
            following = survivors(mine, tree.draft[node, token], places, counts)
            agree = alive[tree.token[tree.node[alive, i + 1]] == token]
            self._go_on(tree, weights, proposals, part, agree, following, [*laws, places.proposal])


def _children(counts: FloatArray, each: int) -> FloatArray:
    """The law of the number of children of the survivors, from that of their own number."""
    law = np.zeros(counts.size * each)
    law[each - 1 :: each] = counts
    return law


def survivors(owned: Owned, chance: float, places: ChildPlaces, counts: FloatArray) -> FloatArray:
    """Law of the number of survivors after a token was picked, shape (K,), from that before.

    Tokens of equal p/q are a group that owns its places in common: each has its share of every part.  Let F(u) be the
    length of what the token owns below u.  Of n labels, exactly m are the token's and the largest is one of them, at u,
    with density binomial(n, m) (u - F(u))**(n-m) d(F(u)**m).  On a place F is affine, so Gauss-Legendre sums are exact;
    all their terms are positive.

    Parameters
    ----------
    owned, places
        What the token's group owns of [0, 1].
    chance : float
        Draft probability of the token: its share is that over the group's, which is the length of what the group owns.
    counts : ndarray, shape (K,)
        P(n = 1), ..., P(n = K) given that the picked path goes through the prefix.
    """
    most = counts.size
    nodes, weights = np.polynomial.legendre.leggauss((most + 1) // 2)
    part = 0.5 + 0.5 * nodes
    amount = owned.amount * min(chance / owned.amount.sum(), 1.0)
    mine = (np.cumsum(amount) - amount)[:, None] + amount[:, None] * part
    start = np.cumsum(places.size) - places.size
    others = np.maximum((start[owned.rank])[:, None] + places.size[owned.rank, None] * part - mine, 0.0)
    after = np.zeros(most)
    for n in range(1, most + 1):
        for m in range(1, n + 1):
            density = others ** (n - m) * mine ** (m - 1) @ (0.5 * weights)
            after[m - 1] += counts[n - 1] * math.comb(n, m) * m * (amount @ density)
    total = after.sum()
    return after / total if total > 0 else counts

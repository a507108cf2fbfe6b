"""What a verifier can make of laws that it reads where it drafted: linear programs over all verifiers."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from otspec.laws import FloatArray
from otspec.proofs_check.claims import claim
from otspec.proofs_check.instances import positive_law
from otspec.proofs_check.oracles import Row, Sums

TOKENS = PATHS = 2
World = tuple[int, ...]
"""Which of two pairs of laws is after each first token."""
Key = tuple[Any, ...]
WORLDS: tuple[World, ...] = ((0, 0), (0, 1), (1, 0), (1, 1))
Paths = tuple[tuple[int, int], ...]
LEAVES = [(x, y) for x in range(TOKENS) for y in range(TOKENS)]
TREES: tuple[Paths, ...] = tuple(itertools.product(LEAVES, repeat=PATHS))


class Verifiers:
    """All lossless verifiers of two i.i.d. paths of two tokens, of models that are one of some worlds.

    A variable is the probability to put out tokens given the drafts and the laws that are read: the second token where
    the first is drafted; where it is not, the target adds the second.
    """

    def __init__(self, p: FloatArray, q: FloatArray, then: FloatArray, drafts: FloatArray) -> None:
        """Laws of first tokens, shape (2,), and of second ones, (token, which, 2): of the target, and of the draft."""
        self.q, self.then, self.drafts = q, then, drafts
        self.sums = Sums()
        for tree, world in itertools.product(TREES, WORLDS):
            self.sums.equal(dict.fromkeys(self._outputs(tree, world), 1.0), 1.0)
        for world, (x, y) in itertools.product(WORLDS, ((0, 0), (0, 1), (1, 0))):  # the rest has what is left
            self.sums.equal(self._put_out(world, x, y), float(p[x] * then[x, world[x], y]))

    def chance(self, tree: Paths, world: World) -> float:
        """That these paths are drafted, one after the other."""
        return float(np.prod([self.q[x] * self.drafts[x, world[x], y] for x, y in tree]))

    def _outputs(self, tree: Paths, world: World, token: int | None = None) -> Iterator[Key]:
        """Variables of a tree in a world; on request those that put out a first token."""
        first = {x for x, _ in tree}
        read = tuple(which if x in first else None for x, which in enumerate(world))
        for x in range(TOKENS) if token is None else (token,):
            for y in range(TOKENS) if x in first else (None,):
                yield tree, read, x, y

    def _put_out(self, world: World, x: int, y: int) -> Row:
        row: Row = defaultdict(float)
        for tree in TREES:
            mass = self.chance(tree, world)
            for key in self._outputs(tree, world, x):
                if key[-1] is None:
                    row[key] += mass * self.then[x, world[x], y]
                elif key[-1] == y:
                    row[key] += mass
        return row

    def drafted(self, world: World, x: int) -> Row:
        """A(x): the first token is x, and drafted."""
        each = ((tree, self.chance(tree, world)) for tree in TREES if any(x == first for first, _ in tree))
        return {key: mass for tree, mass in each for key in self._outputs(tree, world, x)}

    def accepted(self) -> Row:
        """Drafted tokens that the text begins with, the mean over worlds that are equally likely."""
        row: Row = defaultdict(float)
        for world, tree in itertools.product(WORLDS, TREES):
            for key in self._outputs(tree, world):
                drafted = int(key[-1] is not None) + int(key[-2:] in tree)
                row[key] += drafted * self.chance(tree, world) / len(WORLDS)
        return row


def _difference(one: Row, other: Row) -> Row:
    row: Row = defaultdict(float, one)
    for key, value in other.items():
        row[key] -= value
    return row


def laws_of_worlds(rng: np.random.Generator) -> dict[str, Any]:
    """Arguments of `Verifiers`."""

    def each(*shape: int) -> FloatArray:
        drawn = [positive_law(rng, TOKENS) for _ in range(int(np.prod(shape)))]
        return 0.9 * np.array(drawn).reshape(*shape, TOKENS) + 0.1 / TOKENS  # programs of tiny numbers fail

    return {"p": each(1)[0], "q": each(1)[0], "then": each(TOKENS, 2), "drafts": each(TOKENS, 2)}


@claim("own-paths-behind", laws_of_worlds, tol=1e-7, cost=20, mutants={"Nor on the law after a sibling.": {"token": 1}})
def paths_behind(p: FloatArray, q: FloatArray, then: FloatArray, drafts: FloatArray, token: int = 0) -> float:
    """Of a lossless verifier that reads laws after drafted prefixes, P(v is drafted, and the text begins with v) does
    not depend on the law after v. [otspec, docs/paths.md, Lemma 3]

    Remark: The largest change over all verifiers, a linear program: two first tokens, two paths of two.
    Margin: How far A(0) can move, down, with the law after a token.
    """
    verifiers = Verifiers(p, q, then, drafts)
    other = tuple(int(x == token) for x in range(TOKENS))
    return -verifiers.sums.most(_difference(verifiers.drafted(other, 0), verifiers.drafted(WORLDS[0], 0)))

"""How good labels can be: the example of `docs/best_labels.md`, and the least bound against its definition."""

import itertools
from collections import defaultdict

import numpy as np
import pytest

from otspec.laws import FloatArray
from otspec.proofs_check.oracles import Row, Sums
from otspec.proofs_check.own.all_verifiers import TREES, WORLDS, Verifiers, laws_of_worlds
from otspec.proofs_check.own.labels import hit, least_bound
from tests.oracles import Floats

EVEN = np.array([0.5, 0.5])
EXAMPLE = {
    "p": EVEN,
    "q": EVEN,
    "then": np.array([[[0.0, 1.0], [1.0, 0.0]]] * 2),
    "drafts": np.array([[[1.0, 0.0], [0.75, 0.25]]] * 2),
}
"""After either token nothing that is drafted can be accepted, or all drafts of token 0 can, as likely as not."""
SOLVED = 1e-8
"""HiGHS keeps the constraints of four programs within this."""


def best_causal(p: FloatArray, q: FloatArray, then: FloatArray, drafts: FloatArray) -> float:
    """The most of verifiers whose A(v) depends on the laws after prefixes of v alone: conditions (a) and (b)."""
    sums, gain = Sums(), Row()
    for x in range(2):
        sums.at_most({(x,): 1.0}, float(p[x]))
        gain[x,] = 1.0
        for y, which in itertools.product(range(2), repeat=2):
            sums.at_most({(x, y, which): 1.0, (x,): -float(then[x, which, y])}, 0.0)
            gain[x, y, which] = 0.5
    each: list[tuple[tuple[int, ...], ...]] = [(), ((),), ((0,),), ((1,),), ((0,), (1,))]
    """Prefixes of which none begins another, after a first token."""
    for world, *chosen in itertools.product(WORLDS, each, each):
        row, mass = Row(), 0.0
        for x, which in enumerate(world):
            for rest in chosen[x]:
                row[(x, *rest, which) if rest else (x,)] = 1.0
                mass += float(q[x] * np.prod(drafts[x, which][list(rest)]))
        if row:
            sums.at_most(row, hit(mass, 2))
    return sums.most(gain)


def by_definition(p: Floats, q: Floats, then: Floats, drafts: Floats) -> float:
    """The least bound of Theorem 5 of paths over all J, drawn at random: a program in the chances of J."""
    sums, gain = Sums(), Row()
    along: dict[tuple[int, ...], Row] = defaultdict(lambda: defaultdict(float))
    for x in range(2):
        sums.at_most({("J", x, 0): -1.0, ("J", x, 1): -1.0}, -1.0)
        gain["J", x, 0] = -float(p[x])
        along[x,]["J", x, 1] = 1.0
        for which, y in itertools.product(range(2), repeat=2):
            sums.at_most({("J", x, y, which, j): -1.0 for j in range(3)}, -1.0)
            gain["J", x, y, which, 0] = -float(p[x] * then[x, which, y]) / 2
            along[x,]["J", x, y, which, 1] = float(then[x, which, y]) / 2
            along[x, y, which]["J", x, y, which, 2] = 1.0
    for world, tree in itertools.product(WORLDS, TREES):
        chance = float(np.prod([q[x] * drafts[x, world[x], y] for x, y in tree])) / len(WORLDS)
        if chance > 0.0:
            gain["largest", world, tree] = -chance
            for x, y in set(tree):
                row = {**along[x,], **along[x, y, world[x]]}
                sums.at_most({**row, ("largest", world, tree): -1.0}, 0.0)
    return -sums.most(gain)


def test_the_example() -> None:
    verifiers = Verifiers(**EXAMPLE)
    assert best_causal(**EXAMPLE) == pytest.approx(188 / 128, abs=SOLVED)
    assert verifiers.sums.most(verifiers.accepted()) == pytest.approx(189 / 128, abs=SOLVED)
    assert least_bound(**EXAMPLE) == pytest.approx(192 / 128, abs=SOLVED)


def test_the_least_bound_is_that_over_all_levels_at_random() -> None:
    rng = np.random.default_rng(0)
    for laws in (EXAMPLE, *(laws_of_worlds(rng) for _ in range(6))):
        assert least_bound(**laws) == pytest.approx(by_definition(**laws), abs=SOLVED), laws


def test_one_known_model_has_the_bound_of_all_verifiers() -> None:
    """The second corollary: where both laws of a token are one, there is nothing that is not known."""
    rng = np.random.default_rng(1)
    for _ in range(4):
        laws = laws_of_worlds(rng)
        laws["then"][:, 1], laws["drafts"][:, 1] = laws["then"][:, 0], laws["drafts"][:, 0]
        verifiers = Verifiers(**laws)
        assert least_bound(**laws) == pytest.approx(verifiers.sums.most(verifiers.accepted()), abs=SOLVED)

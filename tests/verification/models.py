"""Small models with laws of their own after every prefix, friendly and hostile, all seeded."""

from collections.abc import Callable
from functools import cache

import numpy as np

from otspec.verification import Model, synthetic
from otspec.verification.trees.tree import Prefix
from tests.oracles import Floats

Rng = np.random.Generator


def _zeros(rng: Rng, vocab: int) -> Floats:
    law = rng.dirichlet(np.ones(vocab)) * (rng.random(vocab) < 0.6)
    law[rng.integers(vocab)] += 0.1
    return law / law.sum()


def _ties(rng: Rng, vocab: int) -> Floats:
    return np.bincount(rng.integers(vocab, size=4), minlength=vocab) / 4


def _point(rng: Rng, vocab: int) -> Floats:
    if rng.random() < 0.5:
        return np.eye(vocab)[rng.integers(vocab)]
    return rng.dirichlet(np.ones(vocab))


def _tail(rng: Rng, vocab: int) -> Floats:
    law = 10.0 ** rng.choice([-300, -150, -12, -3, 0], vocab)
    law[rng.integers(vocab)] = 1.0
    return law / law.sum()


def _peaked(rng: Rng, vocab: int) -> Floats:
    return rng.dirichlet(np.full(vocab, 0.2))


LAWS: dict[str, Callable[[Rng, int], Floats]] = {
    "zeros": _zeros,
    "ties": _ties,
    "point": _point,
    "tail": _tail,
    "peaked": _peaked,
}
FAMILIES = ("tiny", *LAWS, "same", "tied", "uniform")


def _tied(rng: Rng, vocab: int) -> tuple[Floats, Floats]:
    """Target and draft law in which p/q takes two values at most, to the last bit.

    A law of powers of 2 times one number for each group keeps its quotients exact, however it is scaled.
    """
    kind = rng.integers(4)  # both uniform; equal; q uniform, p not; neither
    weight = np.ones(vocab) if kind % 2 == 0 else 2.0 ** rng.integers(0, 3, vocab)
    ratio = np.ones(2) if kind < 2 else rng.uniform(0.1, 1.0, 2)
    p = weight * ratio[rng.integers(0, 2, vocab)]
    return p / p.sum(), weight / weight.sum()


def model(family: str, vocab: int, seed: int = 0) -> Model:
    """A model of the family.

    "tiny" is that of `synthetic`; "same" has equal laws; "tied" has exact ties of p/q at every prefix, equal laws and
    uniform ones among them; "uniform" has nothing else; both laws of the others are drawn by `LAWS`.
    """
    if family == "tiny":
        return synthetic("tiny", vocab, seed)
    if family == "uniform":
        return Model(lambda prefix: np.full(vocab, 1 / vocab), lambda prefix: np.full(vocab, 1 / vocab))
    if family == "tied":
        both = cache(lambda prefix: _tied(np.random.default_rng((seed, *prefix)), vocab))
        return Model(lambda prefix: both(prefix)[0], lambda prefix: both(prefix)[1])
    make = LAWS.get(family, _peaked)

    @cache
    def law(role: int, prefix: Prefix) -> Floats:
        return make(np.random.default_rng((seed, role, *prefix)), vocab)

    return Model(lambda prefix: law(0, prefix), lambda prefix: law(0 if family == "same" else 1, prefix))

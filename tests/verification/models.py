"""Small models with laws of their own after every prefix, friendly and hostile, all seeded."""

from functools import cache

import numpy as np

from otspec.verification import Model, synthetic
from tests import laws
from tests.laws import Kind, Pair, Rng


def _tied(rng: Rng, vocab: int) -> Pair:
    """Target and draft law in which p/q takes two values at most, to the last bit.

    A law of powers of 2 times one number for each group keeps its quotients exact, however it is scaled.
    """
    kind = rng.integers(4)  # both uniform; equal; q uniform, p not; neither
    weight = np.ones(vocab) if kind % 2 == 0 else 2.0 ** rng.integers(0, 3, vocab)
    ratio = np.ones(2) if kind < 2 else rng.uniform(0.1, 1.0, 2)
    p = weight * ratio[rng.integers(0, 2, vocab)]
    return p / p.sum(), weight / weight.sum()


KINDS: dict[str, Kind] = {
    "zeros": laws.zeros(laws.uniform, 0.4),
    "ties": laws.grid(4),
    "point": laws.one_of(laws.uniform, laws.point_target(laws.uniform), laws.point_draft(laws.uniform)),
    "tail": laws.tail(1e-300),
    "peaked": laws.dirichlet(0.2),
    "same": laws.same(laws.dirichlet(0.2)),
    "tied": _tied,
    "uniform": lambda rng, vocab: (np.full(vocab, 1 / vocab), np.full(vocab, 1 / vocab)),
}
FAMILIES = ("tiny", *KINDS)


def model(family: str, vocab: int, seed: int = 0) -> Model:
    """A model of the family: "tiny" is that of `synthetic`; others have both laws of one of `KINDS` at every prefix."""
    if family == "tiny":
        return synthetic("tiny", vocab, seed)
    both = cache(lambda prefix: KINDS[family](np.random.default_rng((seed, *prefix)), vocab))
    return Model(lambda prefix: both(prefix)[0], lambda prefix: both(prefix)[1])

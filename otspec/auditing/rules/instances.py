"""The pairs (p, q) that a rule is tried on unless the user brings some: random, and as awkward as real ones get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import FloatArray
from otspec.logits import law_from_logits

Rng = np.random.Generator
Pair = tuple[FloatArray, FloatArray]
"""Target and draft law, both of shape (V,)."""

Kind = Callable[[Rng, int], Pair]
"""A function of a generator and V that draws a pair."""


class Instance(NamedTuple):
    """One position: a target law and a draft law."""

    name: str
    p: Any
    """Target law, shape (V,)."""
    q: Any
    """Draft law, shape (V,), or (n, V) with a law for each draft."""


def _normalised(weights: Any) -> FloatArray:
    law = np.asarray(weights, dtype=np.float64)
    return law / law.sum()


def _softmax(sharpness: float, error: float) -> Kind:
    """The laws of a model and of a draft model that errs, both softmax of normal logits."""

    def make(rng: Rng, vocab: int) -> Pair:
        logits = sharpness * rng.normal(size=vocab)
        return law_from_logits("p", logits), law_from_logits("q", logits + error * rng.normal(size=vocab))

    return make


def _uniform(rng: Rng, vocab: int) -> Pair:
    p, q = rng.dirichlet(np.ones(vocab), 2)
    return p, q


def _sharp_draft(rng: Rng, vocab: int) -> Pair:
    # i.i.d. drafts repeat themselves, and a draft is mostly turned down.
    q = np.full(vocab, 0.25 / max(vocab - 1, 1))
    q[rng.integers(vocab)] = 0.75
    return rng.dirichlet(np.full(vocab, 5.0)), _normalised(q)


def _sharp_target(rng: Rng, vocab: int) -> Pair:
    q, p = _sharp_draft(rng, vocab)
    return p, q


def _zeros(rng: Rng, vocab: int) -> Pair:
    p, q = rng.dirichlet(np.ones(vocab), 2)
    p[rng.integers(vocab)] = 0.0
    q[rng.integers(vocab)] = 0.0
    return _normalised(p), _normalised(q)


def _ties(rng: Rng, vocab: int) -> Pair:
    p, q = (_normalised(1.0 + rng.integers(3, size=vocab)) for _ in range(2))
    return p, q


def _same(rng: Rng, vocab: int) -> Pair:
    law = rng.dirichlet(np.ones(vocab))
    return law, law.copy()


def _nearly_same(rng: Rng, vocab: int) -> Pair:
    law = rng.dirichlet(np.ones(vocab))
    return _normalised(law * (1 + rng.integers(-3, 4, vocab) * np.finfo(np.float64).eps)), law


def _point_target(rng: Rng, vocab: int) -> Pair:
    return np.eye(vocab)[rng.integers(vocab)], rng.dirichlet(np.ones(vocab))


def _point_draft(rng: Rng, vocab: int) -> Pair:
    return rng.dirichlet(np.ones(vocab)), np.eye(vocab)[rng.integers(vocab)]


def _disjoint(rng: Rng, vocab: int) -> Pair:
    first = np.arange(vocab) < (vocab + 1) // 2
    p, q = rng.dirichlet(np.ones(vocab), 2)
    return _normalised(np.where(first, p, 0.0)), _normalised(np.where(first, 0.0, q))


def _tail(smallest: float) -> Kind:
    def make(rng: Rng, vocab: int) -> Pair:
        laws = smallest ** rng.random((2, vocab))
        laws[[0, 1], rng.integers(vocab, size=2)] = 1.0
        return _normalised(laws[0]), _normalised(laws[1])

    return make


def _float32(rng: Rng, vocab: int) -> Pair:
    p, q = np.exp(2 * rng.normal(size=(2, vocab))).astype(np.float32)
    return (p / p.sum()).astype(np.float64), (q / q.sum()).astype(np.float64)


def _heavy_tail(rng: Rng, vocab: int) -> Pair:
    logits = rng.permutation(-1.2 * np.log(np.arange(1, vocab + 1)))
    return law_from_logits("p", logits), law_from_logits("q", logits + rng.normal(size=vocab))


ORDINARY: dict[str, Kind] = {
    "flat softmax": _softmax(0.7, 1.0),
    "softmax": _softmax(1.5, 1.0),
    "softmax, poor draft": _softmax(1.5, 2.0),
    "sharp softmax": _softmax(2.5, 0.4),
    "uniform": _uniform,
    "sharp draft": _sharp_draft,
    "sharp target": _sharp_target,
}
HOSTILE: dict[str, Kind] = {
    "zeros": _zeros,
    "ties": _ties,
    "p = q": _same,
    "p = q but for rounding": _nearly_same,
    "point target": _point_target,
    "point draft": _point_draft,
    "disjoint": _disjoint,
    "tail of 1e-12": _tail(1e-12),
    "tail of 1e-300": _tail(1e-300),
    "float32": _float32,
}
LARGE: dict[str, tuple[int, Kind]] = {"softmax": (50, _softmax(1.5, 1.0)), "heavy tail": (1000, _heavy_tail)}


def small(seed: int, n: int, rows: int | None) -> list[Instance]:
    """Instances that can be enumerated: every kind over several vocabularies, of 2 tokens to 6 or n + 2.

    With `rows`, q has so many laws of each kind, shape (rows, V), else shape (V,).
    """
    found = []
    for sizes, kinds in ((sorted({3, 4, 5, 6, n + 1, n + 2}), ORDINARY), ((2, 5, max(6, n + 2)), HOSTILE)):
        found += [
            _make(f"{name}, V = {vocab}", kind, vocab, (seed, place, vocab), rows)
            for place, (name, kind) in enumerate((ORDINARY | HOSTILE).items())
            if name in kinds
            for vocab in sizes
        ]
    return found


def to_sample(seed: int, n: int, rows: int | None) -> list[Instance]:
    """Instances to be drawn from, as `small` has them: fewer, as each takes thousands of draws, and two large ones."""
    kinds = {
        **ORDINARY,
        **{name: HOSTILE[name] for name in ("zeros", "ties", "p = q", "point target", "tail of 1e-12")},
    }
    found = []
    for place, (name, kind) in enumerate(kinds.items()):
        vocab = max(n + 1, 3 + place % 4)
        found.append(_make(f"{name}, V = {vocab}", kind, vocab, (seed, place, vocab), rows))
    for place, (name, (vocab, kind)) in enumerate(LARGE.items(), len(kinds)):
        found.append(_make(f"{name}, V = {vocab}", kind, vocab, (seed, place, vocab), rows))
    return found


def from_user(pairs: Sequence[Any] | None, logits: Sequence[Any] | None) -> list[Instance]:
    """The user's instances, numbered: pairs of laws, then pairs of logits; of laws, q may have shape (n, V)."""
    laws = [
        (law_from_logits("target logits", z), law_from_logits("draft logits", y)) for z, y in _pairs("logits", logits)
    ]
    return [Instance(f"instance {number}", *pair) for number, pair in enumerate([*_pairs("instances", pairs), *laws])]


def _pairs(name: str, values: Any) -> list[tuple[Any, Any]]:
    if values is None:
        return []
    try:
        found = [(target, draft) for target, draft in values]
    except (TypeError, ValueError) as error:
        raise ProblemError(f"{name} is {values!r}; pass a list of pairs, of target and draft") from error
    if not found:
        raise ProblemError(f"{name} is empty; leave it out for the default, or pass at least one pair")
    return found


def _make(name: str, kind: Kind, vocab: int, seed: tuple[int, ...], rows: int | None) -> Instance:
    rng = np.random.default_rng(seed)
    p, q = kind(rng, vocab)
    if rows is not None:
        q = np.array([q, *(kind(rng, vocab)[1] for _ in range(rows - 1))])
    return Instance(name, p, q)

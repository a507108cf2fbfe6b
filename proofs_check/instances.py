"""Random laws and problems that are hard on claims: flat and spiky, with zeros and ties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from otspec.laws import FloatArray, IntArray
from otspec.problem import Problem
from otspec.proofs_check.oracles import psi
from otspec.proofs_check.single_draft import along, prefixes
from otspec.schemes import IID, Table
from otspec.verification import Model
from otspec.verification.trees.tree import Prefix


def law(rng: np.random.Generator, size: int) -> FloatArray:
    """A law on `size` tokens, from flat to spiky; one in three has zeros, one in ten sits on a coarse grid."""
    kind = rng.random()
    if kind < 0.1:
        weights = rng.integers(0, 4, size).astype(np.float64)  # ties
    else:
        weights = rng.gamma(10 ** rng.uniform(-1.5, 1.0), size=size)
        if kind < 0.4:
            weights *= rng.random(size) < 0.7
    return weights / weights.sum() if weights.sum() > 0 else np.full(size, 1 / size)


def positive_law(rng: np.random.Generator, size: int) -> FloatArray:
    """A law on `size` tokens without zeros, from flat to spiky."""
    weights = rng.gamma(10 ** rng.uniform(-1.0, 1.0), size=size) + 1e-9
    return weights / weights.sum()


def pair(rng: np.random.Generator, largest: int = 5) -> dict[str, Any]:
    """Target p and draft q on 2 to `largest` tokens; one in twenty times they are equal."""
    size = int(rng.integers(2, largest + 1))
    p = law(rng, size)
    return {"p": p, "q": p.copy() if rng.random() < 0.05 else law(rng, size)}


def laws(
    rng: np.random.Generator, largest: int, **draws: Callable[[np.random.Generator, int], FloatArray]
) -> dict[str, Any]:
    """A law for each name, on 2 to `largest` tokens, by what draws it: `law` or `positive_law`."""
    size = int(rng.integers(2, largest + 1))
    return {name: draw(rng, size) for name, draw in draws.items()}


def covered(rng: np.random.Generator) -> dict[str, Any]:
    """Target p, and a draft q without zeros."""
    return laws(rng, 5, p=law, q=positive_law)


def iid(rng: np.random.Generator, largest: int = 5, most: int = 4) -> dict[str, Any]:
    """Target p, draft q and a number n of i.i.d. drafts, 1 to `most`."""
    return {**pair(rng, largest), "n": int(rng.integers(1, most + 1))}


def small_iid(rng: np.random.Generator) -> dict[str, Any]:
    """The same with few tuples of drafts."""
    return iid(rng, largest=4, most=3)


def table(rng: np.random.Generator, largest: int = 5, most: int = 3) -> dict[str, Any]:
    """Target p and drafts of an arbitrary joint law: tuples `drafts` with probabilities `law`."""
    size, n = int(rng.integers(2, largest + 1)), int(rng.integers(1, most + 1))
    drafts = np.array(list(np.ndindex(*(size,) * n)))
    return {"p": law(rng, size), "drafts": drafts, "law": law(rng, len(drafts))}


def ordered(rng: np.random.Generator) -> dict[str, Any]:
    """A table, and an order of its tokens."""
    instance = table(rng)
    return {**instance, "order": rng.permutation(instance["p"].size)}


def rejecting(rng: np.random.Generator) -> dict[str, Any]:
    """A table with alpha* < 1."""
    while True:
        instance = table(rng)
        if psi(**instance).min() < -1e-6:
            return instance


def independent(rng: np.random.Generator, largest: int = 4, most: int = 3) -> dict[str, Any]:
    """Target p and the laws qs, shape (n, V), of independent drafts."""
    size, n = int(rng.integers(2, largest + 1)), int(rng.integers(1, most + 1))
    return {"p": law(rng, size), "qs": np.array([law(rng, size) for _ in range(n)])}


def distinct(rng: np.random.Generator, largest: int = 5, most: int = 3) -> dict[str, Any]:
    """Target p, draft q and a number n of distinct drafts: at most as many as tokens have q > 0."""
    laws = pair(rng, largest)
    return {**laws, "n": int(rng.integers(1, min(most, int(np.count_nonzero(laws["q"]))) + 1))}


def iid_problem(p: FloatArray, q: FloatArray, n: int) -> Problem:
    """The problem of an instance of `iid`."""
    return Problem(p, IID(q, n))


def table_problem(p: FloatArray, drafts: IntArray, law: FloatArray) -> Problem:
    """The problem of an instance of `table`."""
    return Problem(p, Table(drafts, law, p.size))


def model_of(target: FloatArray, draft: FloatArray) -> Model:
    """A pair of models from laws by prefix, in rows: shorter prefixes first, then in lexicographic order."""
    return Model(after_prefix(target), after_prefix(draft))


def after_prefix(laws: FloatArray) -> Callable[[Prefix], FloatArray]:
    """A language model from its laws, shape (prefixes, V), in that order."""
    vocab = laws.shape[1]
    return lambda prefix: laws[along(prefix, vocab)[-1]]


def model_laws(rng: np.random.Generator, vocab: int, length: int) -> dict[str, Any]:
    """Both models' laws for drafted paths of `length` tokens, as `model_of` takes them."""
    inner = prefixes(vocab, length - 1)
    target = np.array([law(rng, vocab) for _ in range(inner + vocab**length)])
    draft = np.array([law(rng, vocab) for _ in range(inner)])
    if rng.random() < 0.5:  # a draft model that resembles the target
        draft = 0.6 * target[:inner] + 0.4 * draft
    return {"target": target, "draft": draft, "length": length}


def path_laws(rng: np.random.Generator) -> dict[str, Any]:
    """The same, small enough for all paths to be listed many times."""
    return model_laws(rng, *((2, 2), (2, 3), (3, 2))[rng.integers(3)])


def optimum_of(problem: Problem) -> float:
    """alpha* from all token sets."""
    return 1 + float(psi(problem.p, *problem.scheme.support()).min())

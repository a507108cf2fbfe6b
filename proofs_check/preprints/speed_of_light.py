"""The speed of light of speculation [pankratov2026speculative]: what trees of P known prefixes accept at most.

The tree is of the likeliest P prefixes of the target, so nothing is accepted more often.  mu and mu2 are the means of
a law's entropy and of its second moment of -log p, where laws after prefixes are independent and alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import entr

from otspec.laws import FloatArray
from otspec.proofs_check.claims import Unchecked, claim, inequality
from otspec.proofs_check.instances import law, positive_law
from otspec.proofs_check.preprints.trees import best, cut, moments, profiles
from otspec.proofs_check.search import Descent
from otspec.proofs_check.single_draft import child, prefixes

KEY = "pankratov2026speculative"
ABSTRACT = f"{KEY} (arXiv:2512.11718), abstract"


def printed(nodes: float, mu: float, mu2: float) -> float:
    """(mu + mu2) log P / mu^2 + 1: the abstract's bound, with 1 for its O(1)."""
    return (mu + mu2) * np.log(nodes) / mu**2 + 1


def _few(rng: np.random.Generator) -> dict[str, Any]:
    """Two laws of two tokens, and up to three nodes."""
    return {"laws": np.array([law(rng, 2) for _ in range(2)]), "weights": law(rng, 2), "nodes": int(rng.integers(1, 4))}


def _one(rng: np.random.Generator) -> dict[str, Any]:
    size, nodes = int(rng.integers(2, 5)), int(np.exp(rng.uniform(0, 5)))
    return {"laws": positive_law(rng, size)[None], "weights": np.ones(1), "nodes": nodes}


def _either(rng: np.random.Generator) -> dict[str, Any]:
    """One law after all prefixes and up to a hundred nodes, or two laws and a few."""
    return _few(rng) if rng.random() < 0.3 else _one(rng)


def _accepted(laws: FloatArray, weights: FloatArray, nodes: int) -> float:
    if len(laws) == 1:
        return best(laws[0], nodes)
    return sum(chance * sum(profile) for profile, chance in profiles(laws, weights, nodes).items())


LAWS = Descent("laws weights")


@inequality("speed-of-light", _either, LAWS, tol=1e-9, cost=5, mutants={"Half of it.": {"right": 0.5}})
def of_light(laws: FloatArray, weights: FloatArray, nodes: int, bound: Any = printed) -> tuple[float, float]:
    """Where laws after prefixes are independent and alike, a tree of P prefixes has at most (mu + mu2) log P / mu^2 +
    O(1) tokens accepted. [pankratov2026speculative (arXiv:2512.11718), abstract; docs/speed_limits.md, Corollary 1]

    Hypotheses: O(1) is 1 here, for every P and all laws.
    Remark: Exact: by a heap where all laws are one, else by enumeration of two laws and up to three nodes. The right
    constant of log P is 1 / mu (speed-sharper). Of the paper the abstract was at hand, which speaks of basic
    assumptions; that laws are independent and alike is what accounts of it say.
    Margin: Accepted tokens, and a bound of them; nothing of laws that are all certain.
    """
    mu, mu2 = moments(laws, weights)
    return (0.0, 0.0) if mu < 1e-9 else (_accepted(laws, weights, nodes), float(bound(nodes, mu, mu2)))


def sharper(nodes: float, mu: float, mu2: float) -> float:
    """log P / mu + mu2 / mu^2."""
    return np.log(nodes) / mu + mu2 / mu**2


@inequality(
    "speed-sharper",
    _either,
    LAWS,
    tol=1e-9,
    cost=5,
    mutants={"log P / mu + 0.2.": lambda **i: 0.2 + of_light.margin(**i, bound=lambda n, mu, _: np.log(n) / mu)},
)
def speed_sharper(laws: FloatArray, weights: FloatArray, nodes: int) -> tuple[float, float]:
    """They have at most log P / mu + mu2 / mu^2 accepted. [otspec; on pankratov2026speculative (arXiv:2512.11718);
    docs/speed_limits.md, Theorem 1]

    Beside: speed-of-light
    """
    return of_light(laws, weights, nodes, bound=sharper)


def _cut_drawn(rng: np.random.Generator) -> dict[str, Any]:
    size, count = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    laws = np.array([positive_law(rng, size) for _ in range(count)])
    return {"laws": laws, "weights": law(rng, count), "depth": float(rng.uniform(0, 4))}


@inequality("speed-renewal", _cut_drawn, LAWS, tol=1e-9, cost=10, mutants={"1.2 times as many.": {"left": 1.2}})
def renewal(laws: FloatArray, weights: FloatArray, depth: float) -> tuple[float, float]:
    """The prefixes of probability exp(-t) at least have at most t / mu + mu2 / mu^2 - 1 tokens accepted. [otspec; on
    pankratov2026speculative (arXiv:2512.11718); docs/speed_limits.md, Lemma 1; lorden1970excess]

    Beside: speed-of-light
    Remark: Attained by a uniform law where t is a multiple of its entropy.
    Margin: Accepted tokens of the prefixes above a level, and depth / mu + mu2 / mu^2 - 1.
    """
    mu, mu2 = moments(laws, weights)
    return (0.0, 0.0) if mu < 1e-9 else (cut(laws, weights, depth)[0], depth / mu + mu2 / mu**2 - 1)


@inequality("speed-cut", _cut_drawn, LAWS, tol=1e-9, cost=10, mutants={"Half of it.": {"right": 0.5}})
def speed_cut(laws: FloatArray, weights: FloatArray, depth: float) -> tuple[float, float]:
    """The sharper bound holds of trees of random size, P being the expected one, and where P mu >= 1 so does (1 + log(P
    mu)) / mu + mu2 / mu^2 - 1. [otspec; on pankratov2026speculative (arXiv:2512.11718); docs/speed_limits.md, Theorem
    1]

    Beside: speed-of-light
    Margin: The same against the sharper bounds of as many nodes as are expected.
    """
    mu, mu2 = moments(laws, weights)
    if mu < 1e-9:
        return 0.0, 0.0
    accepted, nodes = cut(laws, weights, depth)
    bounds = [sharper(max(nodes, 1.0), mu, mu2)]
    if nodes * mu >= 1:
        bounds.append((1 + np.log(nodes * mu)) / mu + mu2 / mu**2 - 1)
    return accepted, float(min(bounds))


def _texts(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "laws": np.array([law(rng, 2) for _ in range(2)]),
        "weights": law(rng, 2),
        "nodes": int(rng.integers(2, 100)),
    }


@claim(
    "speed-dependent",
    _texts,
    LAWS,
    tol=1e-9,
    counterexample={"laws": [[1.0, 0.0], [0.5, 0.5]], "weights": [0.5, 0.5], "nodes": 100},
)
def dependent(laws: FloatArray, weights: FloatArray, nodes: int) -> float:
    """The bound holds of mean entropies where the laws of a text depend on each other. [otspec; on
    pankratov2026speculative (arXiv:2512.11718); docs/speed_limits.md, Theorem 2]

    Beside: speed-of-light
    Instead: speed-entropy holds of every model: it bounds the entropy after accepted prefixes, not their number.
    Remark: One half of the texts is certain, and has all of a chain accepted. Language models are like that.
    Margin: The printed bound less accepted tokens, where one of the laws follows all prefixes of a text.
    """
    mu, mu2 = moments(laws, weights)
    easy = float(weights @ [best(row, nodes) for row in laws])
    return 0.0 if mu < 1e-9 else float(printed(nodes, mu, mu2)) - easy


def _model(rng: np.random.Generator) -> dict[str, Any]:
    """A law of its own after every prefix, and which prefixes are in a tree, if those that they begin with are."""
    vocab, depth = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    count = prefixes(vocab, depth)
    return {"target": np.array([law(rng, vocab) for _ in range(count)]), "held": rng.random(count) < 0.7}


@inequality(
    "speed-entropy",
    _model,
    Descent("target", sets="held"),
    mutants={"log(1 + (V - 1) P).": {"root": False}, "1.02 times the sum.": {"left": 1.02}},
)
def entropy(target: FloatArray, held: Any, root: bool = True) -> tuple[float, float]:
    """For every model and tree of P prefixes, the entropies of the laws after the accepted prefixes, the empty one
    included, sum to log(1 + (V - 1)(P + 1)) at most in the mean. [otspec; on pankratov2026speculative
    (arXiv:2512.11718); docs/speed_limits.md, Theorem 2]

    Beside: speed-of-light
    Margin: The expected sum of the entropies after the accepted prefixes, the empty one included, and log of the
    leaves.
    """
    count, vocab = target.shape
    chance, inside = np.zeros(count), np.zeros(count, dtype=bool)
    chance[0], inside[0] = 1.0, True
    for node in range(count):
        for token in range(vocab):
            if (below := child(node, token, vocab)) < count:
                chance[below], inside[below] = chance[node] * target[node, token], inside[node] and bool(held[below])
    spent = entr(target).sum(axis=1) * chance
    leaves = 1 + (vocab - 1) * int(inside.sum())
    return float(spent[inside].sum()), float(np.log(leaves if root else leaves - vocab + 1))


UNCHECKED = (
    Unchecked(
        "On Llama models the bound is tight.",
        ABSTRACT,
        "A measurement.  For independent laws the factor of log P is 1 + mu2 / mu times too large (speed-sharper).",
    ),
)

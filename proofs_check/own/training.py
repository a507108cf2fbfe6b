"""What draft laws are trained for: the gradient of alpha*(n), the sets that it is made of, and marginals."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.laws import FloatArray
from otspec.proofs_check.claim import Claim, Mutation
from otspec.proofs_check.instances import iid, law
from otspec.proofs_check.oracles import token_sets
from otspec.proofs_check.search import Descent

STEP = 1e-6
"""How far a draft law is moved."""
TIED = 1e-12
"""Sets whose values differ by less are equally good."""


def _values(p: FloatArray, q: FloatArray, n: int) -> FloatArray:
    """p(A) - 1 + (1 - q(A))^n of every token set A, shape (2**V,)."""
    sets = token_sets(p.size)
    return sets @ p - 1 + np.clip(1 - sets @ q, 0, 1) ** n


def _towards(rng: np.random.Generator) -> dict[str, Any]:
    """Target, drafts, and a law that the draft law is moved towards."""
    instance = iid(rng)
    return {**instance, "other": law(rng, instance["p"].size)}


def _slope(
    p: FloatArray, q: FloatArray, n: int, other: FloatArray, best: Any = np.max, drafts: int | None = None
) -> float:
    """How far the change of 1 - alpha*(n) is within its bounds: slopes of the best sets, and of those almost as good.

    A set that is worse by less than what a step can change may be the best one after it.  `drafts` counts them
    otherwise in the gradient.
    """
    values, sets = _values(p, q, n), token_sets(p.size)
    slopes = -(n if drafts is None else drafts) * np.clip(1 - sets @ q, 0, 1) ** (n - 1) * (sets @ (other - q))
    change = (_values(p, q + STEP * (other - q), n).max() - values.max()) / STEP
    least, most = (best(slopes[values >= values.max() - off]) for off in (TIED, 2 * n * STEP))
    return float(min(change - least, most - change))


def _level_sets(p: FloatArray, q: FloatArray, n: int, by: str = "ratio") -> float:
    """The best value of the level sets of p / q, or of p, minus the best of all sets."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(q > 0, p / q, np.where(p > 0, np.inf, 0.0))
    order = np.argsort(-(ratio if by == "ratio" else p), kind="stable")
    inside = np.concatenate(([0.0], np.cumsum(p[order]))), np.concatenate(([0.0], np.cumsum(q[order])))
    found = inside[0] - 1 + np.clip(1 - inside[1], 0, 1) ** n
    return float(found.max() - _values(p, q, n).max())


def _mixture(rng: np.random.Generator) -> dict[str, Any]:
    """Laws after what may come in between, how likely each is, and a law that is to stand for all of them."""
    size, count = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    laws = np.array([law(rng, size) for _ in range(count)])
    return {"laws": laws, "weights": law(rng, count), "q": law(rng, size)}


def _divergence(laws: FloatArray, weights: FloatArray, q: FloatArray) -> float:
    """The mean of KL(P || q), infinite where a P has more tokens than q."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(laws > 0, laws * np.log(laws / q), 0.0).sum(axis=1)
    return float(weights[weights > 0] @ terms[weights > 0])


def _marginal(laws: FloatArray, weights: FloatArray, q: FloatArray, power: float = 1.0) -> float:
    """How much worse q is than the mean law, or than that of powers."""
    mean = weights @ laws
    mean = mean**power / (mean**power).sum()
    own, best = _divergence(laws, weights, q), _divergence(laws, weights, mean)
    return 1.0 if np.isinf(own) else own - best


CLAIMS = (
    Claim(
        "own-alpha-gradient",
        "Where the draft law q moves towards another one, 1 - alpha*(n) changes at the rate "
        "-n (1 - q(A))^(n-1) (r(A) - q(A)), the largest of the sets A that attain max p(A) - 1 + (1 - q(A))^n.",
        "otspec, docs/theory/training.md, Theorem 1; hu2025towards",
        _towards,
        _slope,
        tol=1e-4,
        remark="By differences of the maximum over all sets, ties included.",
        mutations=(
            Mutation("The least of these sets.", lambda **instance: _slope(**instance, best=np.min)),
            Mutation("Without the factor n.", lambda **instance: _slope(**instance, drafts=1)),
        ),
    ),
    Claim(
        "own-alpha-level-set",
        "max p(A) - 1 + (1 - q(A))^n over all sets A is attained where A has the largest p / q.",
        "otspec, docs/theory/training.md, Theorem 2; hu2025towards",
        iid,
        _level_sets,
        search=Descent(laws=("p", "q")),
        mutations=(Mutation("Where A has the largest p.", lambda **instance: _level_sets(**instance, by="p")),),
    ),
    Claim(
        "own-marginal",
        "Of all laws q, the mean of laws P has the least mean of KL(P || q).",
        "otspec, docs/theory/training.md, Theorem 4",
        _mixture,
        _marginal,
        search=Descent(laws=("q",)),
        mutations=(Mutation("The mean, squared.", lambda **instance: _marginal(**instance, power=2.0)),),
    ),
)

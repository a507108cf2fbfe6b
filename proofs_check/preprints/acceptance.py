"""When is a draft accepted? [sharma2026when]: rules for the likeliest token of a draft law.

A drafter that drafts its likeliest token is rejected where the target gives that token too little.  How far is a draft
law from the target's that is?  Of m tokens: `coverage`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import xlogy

from otspec.laws import BoolArray, FloatArray
from otspec.proofs_check import instances
from otspec.proofs_check.claims import claim, inequality
from otspec.proofs_check.instances import law, positive_law
from otspec.proofs_check.preprints.levelling import WAYS, apart, compared, distance, levelled, of_even, of_two
from otspec.proofs_check.search import Descent

KEY = "sharma2026when"
ABSTRACT = f"{KEY} (arXiv:2606.30265), abstract"
RULES = ("greedy", "additive", "multiplicative", "top-m", "entropy")
DELTA = 0.5
"""Of typical acceptance: tokens of at least min(eps, DELTA exp(-H(p))) are accepted."""
MOVED = 1e-3
"""How far the nearest law is moved to be rejected for sure."""
BOTH = Descent("p q")


def accepted(p: FloatArray, rule: str, eps: float, m: int) -> BoolArray:
    """The tokens that a rule accepts, each rule by its own definition."""
    if rule == "greedy":
        return np.asarray(p == p.max())
    if rule == "additive":
        return np.asarray(p >= p.max() - eps)
    if rule == "multiplicative":
        return np.asarray(p >= (1 - eps) * p.max())
    if rule == "top-m":
        return np.asarray((p > p[:, None]).sum(axis=1) < m)  # fewer than m tokens are likelier
    return np.asarray(p >= min(eps, DELTA * float(np.exp(xlogy(p, p).sum()))))


def laws(rng: np.random.Generator) -> dict[str, Any]:
    """A target's law without zeros, a draft's, and a direction."""
    return {**instances.laws(rng, 6, p=positive_law, q=law), "way": str(rng.choice(WAYS))}


def with_m(rng: np.random.Generator) -> dict[str, Any]:
    """The same, and a number of tokens less than all."""
    drawn = laws(rng)
    return {**drawn, "m": int(rng.integers(1, drawn["p"].size))}


def _ruled(rng: np.random.Generator) -> dict[str, Any]:
    drawn = with_m(rng)
    ruled = {"rule": str(rng.choice(RULES)), "eps": float(rng.random() ** 2)}
    return {**drawn, **ruled, "p": law(rng, drawn["p"].size)}


@claim("acceptance-level-sets", _ruled, BOTH, mutants={"With q in place of p in the rule.": {"of": "q"}})
def level_sets(p: FloatArray, q: FloatArray, rule: str, eps: float, m: int, way: str, of: str = "p") -> float:
    """What greedy, additive, multiplicative, top-m and entropy-thresholded rules reject is a lower level set of p.
    [sharma2026when (arXiv:2606.30265), abstract]

    Margin: How much less likely the likeliest rejected token is than the least likely accepted one; or sets `of` q.
    """
    taken = accepted({"p": p, "q": q}[of], rule, eps, m)
    return 1.0 if taken.all() else float(p[taken].min() - p[~taken].max())


@inequality("acceptance-greedy", laws, BOTH, tol=1e-9, mutants={"1.05 times that.": {"left": 1.05}})
def greedy(p: FloatArray, q: FloatArray, way: str) -> tuple[float, float]:
    """A draft law whose likeliest token is not p's is at KL(p || q) >= p1 log(2 p1 / (p1 + p2)) + p2 log(2 p2 / (p1 +
    p2)) and at KL(q || p) >= -log(1 - (sqrt p1 - sqrt p2)^2), p1 >= p2 the largest of p. [sharma2026when
    (arXiv:2606.30265), abstract; docs/greedy_acceptance.md, Theorem 1]

    Remark: Of the paper the abstract was at hand, which promises the exact divergence and does not say in which
    direction: both are checked. Attained where the two share their mass: by their mean, or their geometric one.
    Margin: The two likeliest tokens levelled, and a q that drafts another than the likeliest.
    """
    top, second = np.argsort(-p, kind="stable")[:2]
    moved = q.copy()
    if q.argmax() == top:
        moved[[top, second]] = q[[second, top]]
    return compared(p, of_two(p[top], p[second], way), apart(p, moved, way))


@inequality(
    "acceptance-relaxed",
    _ruled,
    BOTH,
    tol=1e-9,
    mutants={"1.05 times as far.": {"left": 1.05}, "That levels the least likely one.": {"likeliest": False}},
)
def relaxed(
    p: FloatArray, q: FloatArray, rule: str, eps: float, m: int, way: str, likeliest: bool = True
) -> tuple[float, float]:
    """For each of these rules, no draft law whose likeliest token is rejected is nearer to p than the one that levels
    the likeliest rejected token with those above it. [sharma2026when (arXiv:2606.30265), abstract;
    docs/greedy_acceptance.md, Theorem 1]

    Remark: In both directions; against a convex program in tests/proofs_check/test_preprints.py.
    Margin: How far the nearest law is that drafts the likeliest rejected token, and q, once it drafts a rejected one.
    """
    refused = np.flatnonzero(~accepted(p, rule, eps, m))
    if not refused.size:
        return 0.0, 0.0
    hub = int(refused[(np.argmax if likeliest else np.argmin)(p[refused])])
    drafted, top, moved = int(refused[q[refused].argmax()]), int(q.argmax()), q.copy()
    moved[[drafted, top]] = q[[top, drafted]]
    return compared(p, distance(p, levelled(p, hub, np.arange(p.size), way), way), apart(p, moved, way))


@claim("acceptance-attained", _ruled, BOTH, tol=1e-9, mutants={"Nearer by 5 %.": {"times": 0.95}})
def attained(p: FloatArray, q: FloatArray, rule: str, eps: float, m: int, way: str, times: float = 1.0) -> float:
    """As near as that to it, some draft law is rejected. [sharma2026when (arXiv:2606.30265), abstract;
    docs/greedy_acceptance.md, Theorem 1]

    Remark: The divergence is exact: below it acceptance is certain, however ties are broken.
    Margin: A law that is moved a little from the nearest one to the rejected token: it drafts that token, and is as
    near.
    """
    refused = np.flatnonzero(~accepted(p, rule, eps, m))
    if not refused.size:
        return 1.0
    hub = int(refused[p[refused].argmax()])
    nearest = levelled(p, hub, np.arange(p.size), way)
    if np.isnan(nearest).any():
        return 1.0
    moved = (1 - MOVED) * nearest
    moved[hub] += MOVED
    more = -np.log1p(-MOVED) if way == WAYS[0] else -MOVED * np.log(p[hub])
    near = times * distance(p, nearest, way) + more - apart(p, moved, way)
    return min(float(near), float(moved[hub] - np.delete(moved, hub).max()))


@inequality("acceptance-margin", laws, BOTH, tol=1e-9, mutants={"1.05 times that.": {"left": 1.05}})
def margin(p: FloatArray, q: FloatArray, way: str) -> tuple[float, float]:
    """A draft that is less likely than p's likeliest token by d is from a law at KL(p || q) >= ((1 + d) log(1 + d) + (1
    - d) log(1 - d)) / 2 and at KL(q || p) >= -log(1 - d^2) / 2. [sharma2026when (arXiv:2606.30265), abstract;
    docs/greedy_acceptance.md, Theorem 2]

    Remark: So d = p1 - p2 certifies strict greedy decoding, and d = eps the additive rule; both are d^2 / 2 at least,
    and sharp: two tokens attain them.
    """
    gap = float(p.max() - p[q.argmax()])
    return compared(p, of_even(((1 + gap) / 2, (1 - gap) / 2), (1, 1), way), apart(p, q, way))


def _just_rejected(rng: np.random.Generator) -> dict[str, Any]:
    """A flat law, another that drafts a token not much too unlikely, and is as near as that can be."""
    drawn = laws(rng)
    way, p = drawn["way"], np.exp(0.3 * rng.standard_normal(drawn["p"].size))
    p /= p.sum()
    hub = int(rng.integers(p.size))
    q = (1 - MOVED) * levelled(p, hub, np.arange(p.size), way)
    q[hub] += MOVED
    return {"p": p, "q": q, "way": way, "eps": float(rng.uniform(0.5, 1.0) * (1 - p[hub] / p.max()))}


@inequality("acceptance-ratio", _just_rejected, BOTH, tol=1e-9, mutants={"1.1 times as far.": {"left": 1.1}})
def ratio(p: FloatArray, q: FloatArray, way: str, eps: float, alone: bool = False) -> tuple[float, float]:
    """A draft below (1 - eps) p1 is from a law at least as far as what levels p1 with min((1 - eps) p1, 1 - p1).
    [sharma2026when (arXiv:2606.30265), abstract; docs/greedy_acceptance.md, Theorem 2]

    Remark: The multiplicative rule, by p1 and eps.
    Margin: Of a draft below (1 - eps) p_max; by eps `alone`, as if there were no tokens but two.
    """
    most = float(p.max())
    if p[q.argmax()] >= (1 - eps) * most:
        return 0.0, 0.0
    most = 1 / (2 - eps) if alone else most
    return compared(p, of_two(most, min((1 - eps) * most, 1 - most), way), apart(p, q, way))


@inequality(
    "acceptance-ratio-alone",
    _just_rejected,
    BOTH,
    tol=1e-9,
    counterexample={
        "p": [0.25, 0.19, 0.19, 0.19, 0.18],
        "q": [0.219, 0.221, 0.19, 0.19, 0.18],
        "way": WAYS[0],
        "eps": 0.2,
    },
)
def ratio_alone(p: FloatArray, q: FloatArray, way: str, eps: float) -> tuple[float, float]:
    """A draft below (1 - eps) p1 is from a law as far as eps alone requires: as if there were no tokens but two.
    [otspec; on sharma2026when (arXiv:2606.30265); docs/greedy_acceptance.md, Theorem 2]

    Beside: acceptance-ratio
    Instead: The bound scales with p1 (acceptance-ratio): the flatter p, the less it takes.
    Remark: Unlike the additive rule, the multiplicative one has no certificate by its own threshold.
    """
    return ratio(p, q, way, eps, alone=True)

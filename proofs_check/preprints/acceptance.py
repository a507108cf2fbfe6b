"""When is a draft accepted? [sharma2026when]: rules for the likeliest token of a draft law.

A drafter that drafts its likeliest token is rejected where the target gives that token too little.  How far is a draft
law from the target's that is?  Of m tokens: `coverage`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import xlogy

from otspec.laws import BoolArray, FloatArray
from otspec.proofs_check.claim import Claim, Mutation, Verdict
from otspec.proofs_check.inequality import Inequality
from otspec.proofs_check.instances import law, positive_law
from otspec.proofs_check.preprints.levelling import WAYS, apart, compared, distance, levelled, of_even, of_two
from otspec.proofs_check.search import Descent

KEY = "sharma2026when"
ABSTRACT = f"{KEY} (arXiv:2606.30265), abstract"
PAGE = "docs/greedy_acceptance.md"
OURS = f"otspec; on {KEY} (arXiv:2606.30265); {PAGE}"
RULES = ("greedy", "additive", "multiplicative", "top-m", "entropy")
DELTA = 0.5
"""Of typical acceptance: tokens of at least min(eps, DELTA exp(-H(p))) are accepted."""
MOVED = 1e-3
"""How far the nearest law is moved to be rejected for sure."""
BOTH = Descent(laws=("p", "q"))


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
    size = int(rng.integers(2, 7))
    return {"p": positive_law(rng, size), "q": law(rng, size), "way": str(rng.choice(WAYS))}


def with_m(rng: np.random.Generator) -> dict[str, Any]:
    """The same, and a number of tokens less than all."""
    drawn = laws(rng)
    return {**drawn, "m": int(rng.integers(1, drawn["p"].size))}


def _ruled(rng: np.random.Generator) -> dict[str, Any]:
    drawn = with_m(rng)
    ruled = {"rule": str(rng.choice(RULES)), "eps": float(rng.random() ** 2)}
    return {**drawn, **ruled, "p": law(rng, drawn["p"].size)}


def _level_set(p: FloatArray, q: FloatArray, rule: str, eps: float, m: int, way: str, of: str = "p") -> float:
    """How much less likely the likeliest rejected token is than the least likely accepted one; or sets `of` q."""
    taken = accepted({"p": p, "q": q}[of], rule, eps, m)
    return 1.0 if taken.all() else float(p[taken].min() - p[~taken].max())


def _rejected(
    p: FloatArray, q: FloatArray, rule: str, eps: float, m: int, way: str, likeliest: bool = True
) -> tuple[float, float]:
    """How far the nearest law is that drafts the likeliest rejected token, and q, once it drafts a rejected one."""
    refused = np.flatnonzero(~accepted(p, rule, eps, m))
    if not refused.size:
        return 0.0, 0.0
    hub = int(refused[(np.argmax if likeliest else np.argmin)(p[refused])])
    drafted, top, moved = int(refused[q[refused].argmax()]), int(q.argmax()), q.copy()
    moved[[drafted, top]] = q[[top, drafted]]
    return compared(p, distance(p, levelled(p, hub, np.arange(p.size), way), way), apart(p, moved, way))


RELAXED = Inequality(_rejected, 1e-12)


def _attained(p: FloatArray, q: FloatArray, rule: str, eps: float, m: int, way: str, times: float = 1.0) -> float:
    """A law that is moved a little from the nearest one to the rejected token: it drafts that token, and is as near."""
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


def _greedy(p: FloatArray, q: FloatArray, way: str) -> tuple[float, float]:
    """The two likeliest tokens levelled, and a q that drafts another than the likeliest."""
    top, second = np.argsort(-p, kind="stable")[:2]
    moved = q.copy()
    if q.argmax() == top:
        moved[[top, second]] = q[[second, top]]
    return compared(p, of_two(p[top], p[second], way), apart(p, moved, way))


GREEDY = Inequality(_greedy, 1e-12)


def _by_margin(p: FloatArray, q: FloatArray, way: str) -> tuple[float, float]:
    gap = float(p.max() - p[q.argmax()])
    return compared(p, of_even(((1 + gap) / 2, (1 - gap) / 2), (1, 1), way), apart(p, q, way))


MARGIN = Inequality(_by_margin, 1e-12)


def _just_rejected(rng: np.random.Generator) -> dict[str, Any]:
    """A flat law, another that drafts a token not much too unlikely, and is as near as that can be."""
    drawn = laws(rng)
    way, p = drawn["way"], np.exp(0.3 * rng.standard_normal(drawn["p"].size))
    p /= p.sum()
    hub = int(rng.integers(p.size))
    q = (1 - MOVED) * levelled(p, hub, np.arange(p.size), way)
    q[hub] += MOVED
    return {"p": p, "q": q, "way": way, "eps": float(rng.uniform(0.5, 1.0) * (1 - p[hub] / p.max()))}


def _by_ratio(p: FloatArray, q: FloatArray, way: str, eps: float, alone: bool = False) -> tuple[float, float]:
    """Of a draft below (1 - eps) p_max; by eps `alone`, as if there were no tokens but two."""
    most = float(p.max())
    if p[q.argmax()] >= (1 - eps) * most:
        return 0.0, 0.0
    most = 1 / (2 - eps) if alone else most
    return compared(p, of_two(most, min((1 - eps) * most, 1 - most), way), apart(p, q, way))


RATIO = Inequality(_by_ratio, 1e-12)
RATIO_ALONE = Inequality(lambda **instance: _by_ratio(**instance, alone=True), 1e-12)


CLAIMS = (
    Claim(
        "acceptance-level-sets",
        "What greedy, additive, multiplicative, top-m and entropy-thresholded rules reject is a lower level set of p.",
        ABSTRACT,
        _ruled,
        _level_set,
        search=BOTH,
        mutations=(Mutation("With q in place of p in the rule.", lambda **i: _level_set(**i, of="q")),),
    ),
    Claim(
        "acceptance-greedy",
        "A draft law whose likeliest token is not p's is at KL(p || q) >= p1 log(2 p1 / (p1 + p2)) + "
        "p2 log(2 p2 / (p1 + p2)) and at KL(q || p) >= -log(1 - (sqrt p1 - sqrt p2)^2), p1 >= p2 the largest of p.",
        f"{ABSTRACT}; {PAGE}, Theorem 1",
        laws,
        GREEDY.margin,
        search=BOTH,
        tol=1e-9,
        tightness=GREEDY.tightness,
        remark="Of the paper the abstract was at hand, which promises the exact divergence and does not say in which "
        "direction: both are checked.  Attained where the two share their mass: by their mean, or their geometric one.",
        mutations=(Mutation("1.05 times that.", GREEDY.with_left(1.05)),),
    ),
    Claim(
        "acceptance-relaxed",
        "For each of these rules, no draft law whose likeliest token is rejected is nearer to p than the one that "
        "levels the likeliest rejected token with those above it.",
        f"{ABSTRACT}; {PAGE}, Theorem 1",
        _ruled,
        RELAXED.margin,
        search=BOTH,
        tol=1e-9,
        tightness=RELAXED.tightness,
        remark="In both directions; against a convex program in tests/proofs_check/test_preprints.py.",
        mutations=(
            Mutation("1.05 times as far.", RELAXED.with_left(1.05)),
            Mutation("That levels the least likely one.", lambda **i: -np.subtract(*_rejected(**i, likeliest=False))),
        ),
    ),
    Claim(
        "acceptance-attained",
        "As near as that to it, some draft law is rejected.",
        f"{ABSTRACT}; {PAGE}, Theorem 1",
        _ruled,
        _attained,
        search=BOTH,
        tol=1e-9,
        remark="The divergence is exact: below it acceptance is certain, however ties are broken.",
        mutations=(Mutation("Nearer by 5 %.", lambda **i: _attained(**i, times=0.95)),),
    ),
    Claim(
        "acceptance-margin",
        "A draft that is less likely than p's likeliest token by d is from a law at KL(p || q) >= "
        "((1 + d) log(1 + d) + (1 - d) log(1 - d)) / 2 and at KL(q || p) >= -log(1 - d^2) / 2.",
        f"{ABSTRACT}; {PAGE}, Theorem 2",
        laws,
        MARGIN.margin,
        search=BOTH,
        tol=1e-9,
        tightness=MARGIN.tightness,
        remark="So d = p1 - p2 certifies strict greedy decoding, and d = eps the additive rule; both are d^2 / 2 at "
        "least, and sharp: two tokens attain them.",
        mutations=(Mutation("1.05 times that.", MARGIN.with_left(1.05)),),
    ),
    Claim(
        "acceptance-ratio",
        "A draft below (1 - eps) p1 is from a law at least as far as what levels p1 with min((1 - eps) p1, 1 - p1).",
        f"{ABSTRACT}; {PAGE}, Theorem 2",
        _just_rejected,
        RATIO.margin,
        search=BOTH,
        tol=1e-9,
        tightness=RATIO.tightness,
        remark="The multiplicative rule, by p1 and eps.",
        mutations=(Mutation("1.1 times as far.", RATIO.with_left(1.1)),),
    ),
    Claim(
        "acceptance-ratio-alone",
        "A draft below (1 - eps) p1 is from a law as far as eps alone asks for: as if there were no tokens but two.",
        f"{OURS}, Theorem 2",
        _just_rejected,
        RATIO_ALONE.margin,
        variant_of="acceptance-ratio",
        search=BOTH,
        tol=1e-9,
        tightness=RATIO_ALONE.tightness,
        expected=Verdict.FAILS,
        counterexample={
            "p": np.array([0.25, 0.19, 0.19, 0.19, 0.18]),
            "q": np.array([0.219, 0.221, 0.19, 0.19, 0.18]),
            "way": WAYS[0],
            "eps": 0.2,
        },
        remedy="The bound scales with p1 (acceptance-ratio): the flatter p, the less it takes.",
        remark="Unlike the additive rule, the multiplicative one has no certificate by its own threshold.",
    ),
)

"""Draft laws: optima in closed form, systematic drafts, draws without replacement, races: docs/draft_laws.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import lambertw

from otspec.laws import FloatArray, IntArray, likeliest, sum_by
from otspec.problem import Problem
from otspec.proofs_check.claims import Claim, claim, inequality
from otspec.proofs_check.instances import distinct, independent, law, optimum_of, pair
from otspec.proofs_check.oracles import prefixes, psi, psi_independent, token_sets
from otspec.proofs_check.own.systematic import Circle, systematic
from otspec.proofs_check.search import Descent
from otspec.schemes import Greedy, HubPairs, Independent, TopK, WithoutReplacement
from otspec.solvers.distinct_drafters.rule import LuceRule

Key: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]
KEYS: dict[str, tuple[str, Key, list[list[float]]]] = {
    "product": ("q1 q2 / p", np.multiply, [[0.8, 0.1, 0.1], [0.1, 0.0, 0.9], [0.1, 0.8, 0.1]]),
    "least": ("min(q1, q2) / p", np.minimum, [[0.1, 0.8, 0.1], [0.9, 0.1, 0.0], [0.2, 0.1, 0.7]]),
    "largest": ("max(q1, q2) / p", np.maximum, [[0.3, 0.2, 0.1, 0.4], [0.4, 0.5, 0.1, 0.0], [0.0, 0.5, 0.1, 0.4]]),
    "sum": ("(q1 + q2) / p", np.add, [[0.04, 0.09, 0.15, 0.72], [0.1, 0.9, 0.0, 0.0], [0.0, 0.0, 0.3, 0.7]]),
}
"""Orders that suggest themselves: by what, as a function, and p, q1, q2 on which none of their prefixes is best."""


@claim("own-greedy", distinct, cost=8, mutants={"It is p(the n likeliest).": {"as_top_n": True}})
def greedy(p: FloatArray, q: FloatArray, n: int, as_top_n: bool = False) -> float:
    """The optimum of greedy drafts is p(the n - 1 likeliest) + the sum of min(p, law of the last draft). [otspec,
    docs/draft_laws.md, Theorem 3; hu2025towards]
    """
    scheme = Greedy(q, n)
    fixed = likeliest(q, n - 1)
    last = q.copy()
    last[fixed] = 0.0
    form = p[likeliest(q, n)].sum() if as_top_n else p[fixed].sum() + np.minimum(p, last / last.sum()).sum()
    return -abs(optimum_of(Problem(p, scheme)) - float(form))


@claim("own-top-n", distinct, cost=8, mutants={"It is p(all but the last draft).": {"fewer": 1}})
def top_n(p: FloatArray, q: FloatArray, n: int, fewer: int = 0) -> float:
    """The optimum of top-n drafts is p(drafts). [otspec, docs/draft_laws.md, Theorem 4]"""
    return -abs(optimum_of(Problem(p, TopK(q, n))) - float(p[likeliest(q, n)[: n - fewer]].sum()))


def _two_possible(rng: np.random.Generator) -> dict[str, Any]:
    while True:
        instance = pair(rng)
        if np.count_nonzero(instance["q"]) > 1:
            return instance


@claim("own-hub-pairs", _two_possible, cost=10, mutants={"As drafts without replacement.": {"of": WithoutReplacement}})
def hub_pairs(p: FloatArray, q: FloatArray, of: type[Greedy] | type[WithoutReplacement] = Greedy) -> float:
    """The pairs of SpecHub form the same sets as greedy drafts at n = 2, with the same probabilities. [otspec,
    docs/draft_laws.md, Corollary 1; sun2024spechub]

    Hypotheses: At least two tokens can be drafted.
    Remark: So they have the same optimum.
    """
    pairs, greedy = HubPairs(q).draft_sets(), of(q, 2).draft_sets()
    if not np.array_equal(pairs.tokens, greedy.tokens):
        return -1.0
    return -float(np.abs(pairs.mass - greedy.mass).max())


def _sloped(rng: np.random.Generator) -> dict[str, Any]:
    return {**distinct(rng), "slope": float(np.exp(rng.normal()))}


@claim("own-prefixes", _sloped, cost=15, mutants={"By increasing q.": {"by_draft": True}})
def own_prefixes(p: FloatArray, q: FloatArray, n: int, slope: float, by_draft: bool = False) -> float:
    """Without replacement, greedy, top-n: along the scheme's order some prefix A minimises f(A) + s p(rest), for every
    s > 0. [otspec, docs/without_replacement.md, Theorem 1; hu2025towards]

    Margin: Along the order of a scheme, some prefix minimises f(A) + s p(V without A), for every slope s.
    """
    margins = []
    for scheme in (WithoutReplacement(q, n), Greedy(q, n), TopK(q, n)):
        values = psi(slope * p, *scheme.support())
        order = np.argsort(q, kind="stable") if by_draft else scheme.prefix_order(p)
        rest = (1 << p.size) - 1 - prefixes(order)
        margins.append(float(values.min() - values[rest].min()))
    return min(margins)


@claim(
    "own-systematic-inclusion",
    distinct,
    tol=1e-8,
    cost=5,
    mutants={"With probability min(1, n q_i).": {"capped": False}},
)
def systematic_inclusion(p: FloatArray, q: FloatArray, n: int, capped: bool = True) -> float:
    """Systematic drafts contain token i with probability min(1, c q_i), c such that these add up to n. [otspec,
    proofs_check/own/systematic.py; madow1949theory]

    Remark: Arcs end on multiples of 2^-53, and tokens within 1e-9 of a whole turn are given all of it.
    Margin: P(the token is drafted), tuple by tuple, against min(1, c q).
    """
    drafts, probabilities = systematic(q, n).support()
    included = sum_by(drafts.ravel(), np.repeat(probabilities, n), q.size)
    if not capped:
        expected = np.minimum(1.0, n * q)
    elif np.count_nonzero(q) == n:
        expected = (q > 0).astype(np.float64)
    else:
        top = 2.0 * n / float(np.sort(q)[: q.size - n + 1].sum())
        scale = brentq(lambda c: float(np.minimum(1.0, c * q).sum()) - n, 0.0, max(top, 1.0), xtol=1e-14)
        expected = np.minimum(1.0, float(scale) * q)
    return -float(np.abs(included - expected).max())


@claim("own-systematic-sets", distinct, tol=0.0, cost=4, mutants={"At most V - 1.": {"fewer": 1}})
def systematic_sets(p: FloatArray, q: FloatArray, n: int, fewer: int = 0) -> float:
    """Systematic drafts all differ, and form at most V different sets. [otspec, proofs_check/own/systematic.py]

    Margin: V less the number of different draft sets, and whether all drafts differ.
    """
    drafts = Circle.of(q, n).drafts
    repeated = (np.diff(np.sort(drafts, axis=1), axis=1) == 0).any()
    return -1.0 if repeated else float(q.size - fewer - len(np.unique(np.sort(drafts, axis=1), axis=0)))


def _as_top_n(p: FloatArray, q: FloatArray, n: int) -> float:
    """Margin of: it accepts as often as top-n drafts."""
    return -abs(float(Circle.of(q, n).shares(p).sum()) - float(p[likeliest(q, n)].sum()))


@claim("own-earliest-deadline", distinct, cost=25, mutants={"It accepts as often as top-n drafts.": _as_top_n})
def earliest_deadline(p: FloatArray, q: FloatArray, n: int) -> float:
    """For systematic drafts, serving the token whose arc ends first is optimal, and lossless. [otspec,
    proofs_check/own/systematic.py; glover1967maximum; liang1995circular]

    Remark: Against all token sets; what is accepted leaves p for the rest, whose law is what of p is missing.
    Margin: Nothing is served twice, p is not exceeded, and the drafts are accepted as often as an optimal rule does.
    """
    circle = Circle.of(q, n)
    shares = circle.shares(p)
    accepted = sum_by(circle.drafts.ravel(), shares.ravel(), p.size)
    over = max(float((accepted - p).max()), float((shares.sum(axis=1) - circle.mass).max()), -float(shares.min()))
    return -max(over, abs(float(accepted.sum()) - optimum_of(Problem(p, circle.scheme()))))


def _distinct_order(rng: np.random.Generator) -> dict[str, Any]:
    instance = distinct(rng, most=4)
    return {**instance, "order": rng.permutation(instance["q"].size)}


@claim("own-arrivals", _distinct_order, cost=8, mutants={"Of the (n-1)-th arrival.": {"fewer": 1}})
def arrivals(p: FloatArray, q: FloatArray, n: int, order: IntArray, fewer: int = 0) -> float:
    """Hit probabilities without replacement are integrals over the time of the n-th arrival of exponential clocks.
    [otspec, docs/without_replacement.md, Lemma 1]

    Remark: Against sums over all ordered tuples.
    Margin: Hit probabilities by exponential clocks, against sums over ordered tuples.
    """
    drafts = np.array(list(permutations(np.flatnonzero(q), n)))
    mass = np.ones(len(drafts))
    for i in range(n):
        rest = np.where((drafts[:, :i, None] == np.arange(q.size)).any(axis=1), 0.0, q)
        mass *= q[drafts[:, i]] / rest.sum(axis=1)
    missed = np.array([mass[~np.isin(drafts, order[:size]).any(axis=1)].sum() for size in range(q.size + 1)])
    return -float(np.abs(WithoutReplacement(q, max(n - fewer, 1)).hit_chain(order) - (1 - missed)).max())


def _racing(rng: np.random.Generator) -> dict[str, Any]:
    instance = independent(rng)
    odds = np.exp(rng.choice([1.0, 5.0, 15.0]) * rng.normal(size=instance["p"].size))
    return {"qs": instance["qs"], "odds": odds / odds.max()}


def _tuples(qs: FloatArray) -> tuple[IntArray, FloatArray]:
    drafts = np.array(list(np.ndindex(*(qs.shape[1],) * len(qs))))
    return drafts, np.prod(qs[np.arange(len(qs)), drafts], axis=1)


@claim("own-luce-law", _racing, tol=1e-11, cost=6, mutants={"Its law is the mean of the laws.": {"mean": True}})
def luce_law(qs: FloatArray, odds: FloatArray, mean: bool = False) -> float:
    """Among independent drafts, a pick with odds W is the first of n clocks to ring, and its law is one integral.
    [otspec, docs/distinct_drafters.md, Lemma 1]

    Remark: Against sums over all tuples; the quadrature is good to some 1e-13.
    """
    drafts, mass = _tuples(qs)
    wins = odds[drafts] / odds[drafts].sum(axis=1, keepdims=True)
    law = sum_by(drafts.ravel(), (mass[:, None] * wins).ravel(), odds.size)
    odds = np.where(qs.any(axis=0), odds, 0.0)
    return -float(np.abs(LuceRule(Independent(qs), odds).proposal - (qs.mean(axis=0) if mean else law)).sum())


def _boxed(rng: np.random.Generator) -> dict[str, Any]:
    size, n = int(rng.integers(2, 5)), int(rng.integers(2, 4))
    return {
        "p": law(rng, size),
        "qs": np.array([law(rng, size) for _ in range(n)]),
        "height": float(rng.choice([0.5, 0.64, 3.0, 8.0])),
    }


@inequality(
    "own-luce-box", _boxed, Descent("p qs"), tol=1e-9, cost=5, mutants={"Within nine tenths of that.": {"ratio": 0.9}}
)
def luce_box(p: FloatArray, qs: FloatArray, height: float) -> tuple[float, float]:
    """With log weights in a box of height M, the convex program of distinct_drafters ends within
    W((n - 1) / e) / (2 M) of alpha*, with Lambert's W. [otspec, docs/distinct_drafters.md, Theorem 2]

    Remark: Minimised by truncated Newton steps, sums over all tuples; alpha* from all token sets. Attained by p = (1,
    0) and two drafts that are always the first and the second token, where 2 M is 1 + W.
    Margin: The gap at the minimum of E log sum exp a(w) - sum of p a over the box, and W((n - 1) / e) / (2 height).
    """
    drafts, mass = _tuples(qs)

    def value(level: FloatArray) -> tuple[float, FloatArray]:
        terms = np.exp(level[drafts])
        total = terms.sum(axis=1, keepdims=True)
        law = sum_by(drafts.ravel(), (mass[:, None] * terms / total).ravel(), p.size)
        return float(mass @ np.log(total[:, 0]) - p @ level), law - p

    found = minimize(
        value,
        np.zeros(p.size),
        jac=True,
        method="TNC",  # L-BFGS-B ends far from the minimum, at some vertex, in one of two hundred
        bounds=[(-height, height)] * p.size,
        options={"ftol": 0.0, "xtol": 0.0, "gtol": 1e-12, "maxfun": 5000},
    )
    g = value(np.asarray(found.x))[1] + p
    gap = 1 + float(psi(p, drafts, mass).min()) - float(np.minimum(p, g).sum())
    return gap, float(lambertw((len(qs) - 1) / math.e).real) / (2 * height)


def _unlike_pairs(rng: np.random.Generator) -> dict[str, Any]:
    """Two drafts that hardly share tokens: 0 and 1 for the first, 2 and 3 for the second.

    The first one's token 1 and the second one's token 2 should make H*; token 0 pays only if more of the second's lay
    in H, though its q/p is larger than that of token 2.
    """
    x, y = rng.uniform(0.6, 0.95), rng.uniform(0.15, 0.5)
    q1, q2 = 0.98 * np.array([1 - x, x, 0, 0]) + 0.005, 0.98 * np.array([0, 0, y, 1 - y]) + 0.005
    worth = np.array([rng.uniform(1.5, 4), rng.uniform(4, 20), rng.uniform(1, 3)])
    p = (q1 + q2)[:3] / worth
    p = np.append(p, max(1 - p.sum(), 0.01))
    return {"p": p / p.sum(), "q1": q1, "q2": q2}


def _no_order(name: str) -> Claim:
    """The claim that an order suggests."""
    key, function, laws = KEYS[name]

    def some_prefix(p: FloatArray, q1: FloatArray, q2: FloatArray) -> float:
        values, holds = psi_independent(p, np.array([q1, q2])), token_sets(p.size) > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.nan_to_num(function(q1, q2) / p, nan=np.inf, posinf=np.inf)
        within = np.where(holds, ratio, np.inf).min(axis=1)
        outside = np.where(holds, -np.inf, ratio).max(axis=1)
        some_prefix = within >= outside * (1 - 1e-9)  # of an order that breaks ties in whatever way is best
        return -float(values[some_prefix].min() - values.min())

    some_prefix.__doc__ = f"""Two drafts of distinct laws: as for i.i.d. drafts, some prefix by decreasing {key} is a
    minimiser H*. [otspec, otspec/schemes/independent.py; on thomas2025global, Table 5, second row]

    Beside: gr-prefix-minimiser
    Instead: A minimum cut finds H* (gr-appendix-D); distinct_drafters and submodular certify the optimum for any n.
    Remark: Nobody claims it: it is what one would try first where the paper uses a minimum cut.
    """
    return claim(
        f"own-no-order-{name}",
        _unlike_pairs,
        Descent("p q1 q2"),
        counterexample=dict(zip(("p", "q1", "q2"), map(np.array, laws), strict=True)),
    )(some_prefix)


no_order_product, no_order_least, no_order_largest, no_order_sum = map(_no_order, KEYS)

"""Speculative speculative decoding [kumar2026ssd]: drafts scaled down on a cache, so that what replaces them is in it.

While the target verifies, the drafter goes on from the tokens of a cache, in case one of them replaces a rejected
draft.  Saguaro sampling drafts from q with the cache's tokens scaled by C <= 1, and renormalised.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from otspec.laws import BoolArray, FloatArray
from otspec.proofs_check.claims import Unchecked, claim, inequality
from otspec.proofs_check.instances import law, laws, positive_law
from otspec.proofs_check.search import Descent

KEY = "kumar2026ssd"
PAPER = f"{KEY} (arXiv:2603.03251)"


class Step(NamedTuple):
    """What becomes of one draft."""

    accepted: float
    hit: float
    """It is rejected, and what replaces it is in the cache."""
    missed: float


def scaled(q: FloatArray, cache: BoolArray, scale: float) -> FloatArray:
    """The law that is drafted from."""
    weights = np.where(cache, scale * q, q)
    return weights / weights.sum()


def step(p: FloatArray, q: FloatArray, cache: BoolArray) -> Step:
    """One draft from q, verified for p."""
    short = np.maximum(p - q, 0.0)
    return Step(float(np.minimum(p, q).sum()), float(short[cache].sum()), float(short[~cache].sum()))


def rate(found: Step) -> float:
    """P(hit | rejected); 1 where nothing is rejected."""
    rejected = found.hit + found.missed
    return found.hit / rejected if rejected > 1e-12 else 1.0


def _cached(rng: np.random.Generator) -> dict[str, Any]:
    """Laws, a cache that is not all tokens, and two scales, the smaller one first."""
    size = int(rng.integers(2, 7))
    cache = rng.permutation(size) < rng.integers(1, size)
    scales = np.sort(rng.random(2)) if rng.random() < 0.8 else np.array([0.0, 1.0])
    return {"p": law(rng, size), "q": positive_law(rng, size), "cache": cache, "scales": scales}


def _both(p: FloatArray, q: FloatArray, cache: BoolArray, scales: FloatArray) -> tuple[Step, Step]:
    cache = cache.astype(bool)
    less, more = (step(p, scaled(q, cache, float(scale)), cache) for scale in scales)
    return less, more


MOVES = Descent("p q")


@claim("saguaro-hits", _cached, MOVES, mutants={"Scaled outside the cache.": {"turned": True}})
def hits(turned: bool = False, **instance: Any) -> float:
    """The smaller C, the likelier it is that what replaces a rejected draft is in the cache. [kumar2026ssd
    (arXiv:2603.03251), Saguaro sampling; docs/rescaled_drafts.md, Theorem 1]

    Remark: For every cache, of the likeliest tokens or not. Of the paper the abstract, an account and the authors' code
    were at hand.
    Margin: By how much the smaller scale has the larger hit rate; of the complement of the cache, `turned`.
    """
    if turned:
        instance["cache"] = ~instance["cache"].astype(bool)
    less, more = _both(**instance)
    return rate(more) - rate(less) if turned else rate(less) - rate(more)


@claim(
    "saguaro-acceptance",
    _cached,
    MOVES,
    counterexample={"p": [0.5, 0.5], "q": [0.8, 0.2], "cache": [1, 0], "scales": [0.25, 1.0]},
)
def acceptance(**instance: Any) -> float:
    """The smaller C, the fewer drafts are accepted. [otspec; on kumar2026ssd (arXiv:2603.03251);
    docs/rescaled_drafts.md, Theorem 2]

    Beside: saguaro-hits
    Instead: Acceptance is concave in the share of drafts in the cache (saguaro-concave): as C falls, it rises first
    where the draft law is too sure of the cache, and then falls.
    Remark: So hits need not cost acceptance: a drafter that is too sure gains both at first.
    Margin: By how much the smaller scale accepts less.
    """
    less, more = _both(**instance)
    return more.accepted - less.accepted


@claim("saguaro-concave", _cached, MOVES, mutants={"Of C.": {"by_scale": True}})
def concave(p: FloatArray, q: FloatArray, cache: BoolArray, scales: FloatArray, by_scale: bool = False) -> float:
    """Acceptance is a concave function of the share q_C(cache). [otspec; on kumar2026ssd (arXiv:2603.03251);
    docs/rescaled_drafts.md, Theorem 2]

    Beside: saguaro-hits
    Margin: How far acceptance half way between two shares of the cache is above the mean; or half way between scales.
    """
    cache = cache.astype(bool)
    drafted = [scaled(q, cache, float(scale)) for scale in scales]
    middle = scaled(q, cache, float(scales.mean())) if by_scale else (drafted[0] + drafted[1]) / 2
    ends = [step(p, law, cache).accepted for law in drafted]
    return step(p, middle, cache).accepted - float(np.mean(ends))


@inequality("saguaro-misses", _cached, MOVES, tightness=None, mutants={"Rarer by 5 %.": {"right": 0.95}})
def misses(**instance: Any) -> tuple[float, float]:
    """The smaller C, the rarer is a rejected draft whose replacement is not in the cache. [otspec; on kumar2026ssd
    (arXiv:2603.03251); docs/rescaled_drafts.md, Theorem 1]

    Beside: saguaro-hits
    Remark: So hits gain at least what acceptance loses. At C = 0 the sum of (p - q / q(rest))+ outside the cache is
    missed, which need not be 0.
    Margin: Misses at the smaller and at the larger scale.
    """
    less, more = _both(**instance)
    return less.missed, more.missed


def _topped(rng: np.random.Generator) -> dict[str, Any]:
    drawn = laws(rng, 6, p=law, q=law)
    return {**drawn, "fan": int(rng.integers(1, drawn["p"].size))}


def _one_by_one(p: FloatArray, q: FloatArray, fan: int) -> float:
    """P(rejected, and what replaces it is among the `fan` likeliest drafts but the rejected one), draft by draft."""
    order = np.argsort(-q, kind="stable")
    short, total = np.maximum(p - q, 0.0), 0.0
    lacking = max(float(short.sum()), 5e-324)
    for drafted in range(p.size):
        cache = [token for token in order if token != drafted][:fan]
        refused = max(float(q[drafted] - p[drafted]), 0.0)
        total += refused * float(short[cache].sum()) / lacking
    return total


@claim("saguaro-expected", _topped, mutants={"With s(F) in place of s(F + 1).": {"more": 0}})
def expected(p: FloatArray, q: FloatArray, fan: int, more: int = 1) -> float:
    """A cache of the F likeliest drafts but the drafted token is hit with probability (o(F + 1) s(F + 1) + (o(all) -
    o(F + 1)) s(F)) / s(all), o(k) and s(k) being the sums of (q - p)+ and of (p - q)+ over the k likeliest drafts.
    [otspec; on kumar2026ssd (arXiv:2603.03251); docs/rescaled_drafts.md, Theorem 3]

    Beside: saguaro-hits
    Remark: What was rejected never replaces itself, so it is left out of the cache. The authors' code scales the F + 1
    likeliest, all that may be cached.
    Margin: Minus how far that is from its closed form; with another number of `more` tokens in place of one.
    """
    order = np.argsort(-q, kind="stable")
    short, over = np.maximum(p - q, 0.0), np.maximum(q - p, 0.0)
    near, wide = order[:fan], order[: fan + more]
    within = float(over[order[: fan + 1]].sum())
    hits = within * short[wide].sum() + (over.sum() - within) * short[near].sum()
    return -abs(_one_by_one(p, q, fan) - (float(hits) / float(short.sum()) if short.sum() > 0 else 0.0))


UNCHECKED = (
    Unchecked(
        "Cache misses fall with a power of the fan-out, and the best fan-outs are a capped geometric series.",
        PAPER,
        "A fit to measured models, and what follows from it; its exponents were not at hand.",
    ),
)

"""Levelling: the nearest law to a target's under which one token is at least, or at most, as likely as others.

Nearest by Kullback-Leibler divergence, in one direction or the other: a few tokens share one probability, and the
others keep theirs, or their odds (docs/greedy_acceptance.md).
"""

from __future__ import annotations

import numpy as np
from scipy.special import rel_entr

from otspec.laws import FloatArray, IntArray

WAYS = ("KL(p || q)", "KL(q || p)")
"""The two directions; p is the target's law, q the draft's."""

LEAST = 1e-6
"""Below it a probability is lost in differences from 1."""


def apart(p: FloatArray, q: FloatArray, way: str) -> float:
    """The divergence of p and q."""
    return float((rel_entr(p, q) if way == WAYS[0] else rel_entr(q, p)).sum())


def levelled(p: FloatArray, hub: int, leaves: IntArray, way: str, rises: bool = True) -> FloatArray:
    """The nearest law to p whose hub is at least as likely as every leaf (`rises`), or at most.

    The hub joins the leaves that are farthest off, as long as the mean of those that joined is on the wrong side of
    the next: the arithmetic mean for KL(p || q), the geometric one for KL(q || p).  NaN where every law is infinitely
    far.
    """
    pool, mean = [hub], p[hub]
    for leaf in leaves[np.argsort(-p[leaves] if rises else p[leaves], kind="stable")]:
        if (p[leaf] <= mean) if rises else (p[leaf] >= mean):
            break
        pool.append(int(leaf))
        with np.errstate(divide="ignore"):
            mean = p[pool].mean() if way == WAYS[0] else np.exp(np.log(p[pool]).mean())
    nearest = p.copy()
    nearest[pool] = mean
    total = nearest.sum()
    return nearest / total if total > 0 else np.full(p.size, np.nan)


def distance(p: FloatArray, nearest: FloatArray, way: str) -> float:
    """How far a law that `levelled` found is."""
    return np.inf if np.isnan(nearest).any() else apart(p, nearest, way)


def of_two(a: float, b: float, way: str) -> float:
    """How far the nearest law is that levels two probabilities and nothing else."""
    if way == WAYS[0]:
        return float(rel_entr([a, b], (a + b) / 2).sum())
    with np.errstate(divide="ignore"):
        return float(-np.log1p(-((np.sqrt(a) - np.sqrt(b)) ** 2)))


def of_even(masses: tuple[float, float], counts: tuple[int, int], way: str) -> float:
    """How far the uniform law is from one with so many tokens of each of two probabilities."""
    p = np.repeat(masses, counts)
    return apart(p, np.full(p.size, 1 / p.size), way)


def compared(p: FloatArray, bound: float, found: float) -> tuple[float, float]:
    """A bound and what it bounds; nothing is compared where that is infinite, or may be rounding."""
    return (0.0, 0.0) if np.isinf(found) or p.min() < LEAST else (bound, found)

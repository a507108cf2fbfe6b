"""Evidence against "the rule is lossless" that is valid at any number of looks.

An *e-process* is a non-negative process that starts at 1 and does not grow on average if the hypothesis holds.  By
Ville's inequality [ville1939etude] it then ever reaches 1/alpha with probability at most alpha, whenever one looks and
for whatever reason one stops [ramdas2023game].  Averages of e-processes are e-processes again, and so is the product of
those that bet on different draws.  All functions return logarithms.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np
from scipy.special import gammaln, logsumexp, xlogy

from otspec.laws import FloatArray, IntArray
from otspec.tolerances import TIE_TOL

CONCENTRATIONS = 4.0 ** np.arange(10)
"""Concentrations of the alternatives, Dirichlet laws around the target that are off by about 1, 1/2, 1/4, ... 1/512."""

TILTS = np.outer([1, -1], 0.5 ** np.array([1, 3, 5])).ravel()
"""Exponents of the alternatives that lean towards another law, or away from it."""

STAKES = 0.5 ** np.arange(1, 11)
"""Shares of the wealth to bet on more acceptance than the optimum."""


def log_evidence(counts: IntArray, law: FloatArray) -> float:
    """Evidence that independent draws with these counts, shape (k,), do not come from the law, shape (k,).

    Or of texts, by the next token after each prefix, shape (prefixes, k); of a text that ends early, the bet is worth
    its mean over what the target goes on with: if the text with that is the target's, it is a fair bet as well.

    The likelihood of the draws if their law were itself drawn from a mixture of Dirichlet laws, over the likelihood
    under `law`: a test martingale.  Infinite once a token of probability 0 is drawn.
    """
    return float(_mean(_by_alternative(np.atleast_2d(counts), law)))


def log_dependence(transitions: IntArray, law: FloatArray) -> FloatArray:
    """Evidence that a draw depends on an earlier one: `transitions`, shape (..., k, k), counts pairs (before, after).

    For each token before, the tokens after it are independent draws from the law, shape (k,), if the rule is lossless;
    the product of these tests is the test of a Markov chain, all rows off by about as much.  The result has the shape
    of `transitions` without its last two axes.
    """
    return _mean(_by_alternative(transitions, law))


def log_tilts(counts: IntArray, target: FloatArray, draft: FloatArray) -> FloatArray:
    """Evidence that draws come from simple alternatives, those of one level of texts and those of all: shape (tilts,).

    Biases are often of this kind, and the same on all cases: laws that lean from the target towards the draft law or
    away from it, p (q/p)**e, or are sharper or flatter, p p**e.  All arrays have shape (prefixes, V), as in
    `log_evidence`, shorter prefixes first.
    """
    some = np.where(target > 0, target, 1.0)
    p, q = np.log(some), np.log(np.where((target > 0) & (draft > 0), draft, some))
    leaning = TILTS[:, None, None, None] * np.array([q - p, p])
    leaning -= logsumexp(leaning, b=target, axis=-1, keepdims=True)
    ratio = (leaning * counts).sum(axis=-1).reshape(-1, len(counts))
    levels = [0]
    while (below := levels[-1] * target.shape[1] + 1) < len(counts):
        levels.append(below)
    return np.append(np.add.reduceat(ratio, levels, axis=1), ratio.sum(axis=1))


def log_excess(accepted: IntArray, optimum: float) -> float:
    """Evidence that more is accepted than a lossless rule can: bets on it, at several stakes.

    Draws accept 0, 1, ... L tokens so often, shape (L + 1,); L is 1 at a position.  The wealth of such a bet is a
    supermartingale if the mean share of L is at most the optimum, alpha* [waudbysmith2024estimating].
    """
    optimum = min(max(optimum, 0.0) + TIE_TOL, 1.0)
    gains = np.linspace(0.0, 1.0, accepted.size) / optimum - 1.0
    return float(_mean(np.log1p(np.outer(STAKES, gains)) @ accepted))


def log_average_and_product(logs: FloatArray) -> float:
    """Half the average and half the product of e-values of separate draws, shape (cases,).

    The average finds one bad instance among many good ones, at the cost of a factor: their number.  The product finds
    a little evidence on each.  Both together lose at most a factor 2 against the better.
    """
    return mean_of(float(_mean(logs)), float(logs.sum()))


def mean_of(*logs: float) -> float:
    """The average of a few e-values, which is an e-value again even if all are of the same draws."""
    return float(_mean(np.array(logs)))


def tv_radius(draws: int, cells: int, miss: float) -> float:
    """Distance, in total variation, within which `draws` independent draws lie of their law, but with probability miss.

    Its mean is at most sqrt((cells - 1) / draws) / 2, by Jensen's and the Cauchy-Schwarz inequality, and one draw moves
    it by at most 1 / draws, so McDiarmid's inequality bounds what is above the mean [mcdiarmid1989method].
    """
    return 0.5 * math.sqrt((cells - 1) / draws) + rate_radius(draws, miss)


def rate_radius(draws: int, miss: float) -> float:
    """How far a share of draws may exceed its probability, but with probability miss [hoeffding1963probability]."""
    return math.sqrt(-math.log(miss) / (2 * draws))


def at_look(miss: float, look: int) -> float:
    """The part of an error probability that look number 0, 1, 2, ... may spend: they add up to at most `miss`."""
    return miss / ((look + 1) * (look + 2))


def _by_alternative(counts: IntArray, law: FloatArray) -> FloatArray:
    """Log likelihood ratio, (alternatives, ...), of counts (..., rows, k) to a law (k,), or to one a row, (rows, k)."""
    if ((counts > 0) & (law == 0)).any():
        return np.full((1 + CONCENTRATIONS.size, *counts.shape[:-2]), np.inf)
    flat = np.where(law > 0, 0.5, 0.0)  # catches a token of tiny probability when it is first drawn
    priors = np.array([flat, *(concentration * law for concentration in CONCENTRATIONS)])
    priors = priors.reshape(-1, *(1,) * (counts.ndim - law.ndim), *law.shape)
    totals = priors.sum(axis=-1)
    priors = np.where(priors > 0, priors, 1.0)  # of what was not drawn: a factor of 1
    drawn = (gammaln(priors + counts) - gammaln(priors)).sum(axis=-1)
    ratio = drawn - gammaln(totals + counts.sum(axis=-1)) + gammaln(totals) - xlogy(counts, law).sum(axis=-1)
    return cast(FloatArray, ratio.sum(axis=-1))


def _mean(logs: FloatArray) -> FloatArray:
    """Log of the mean of exp(logs), along the first axis."""
    return cast(FloatArray, np.logaddexp.reduce(logs, axis=0) - math.log(len(logs)))

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
from scipy.special import gammaln, xlogy

from otspec.laws import FloatArray, IntArray
from otspec.tolerances import TIE_TOL

CONCENTRATIONS = 4.0 ** np.arange(10)
"""Concentrations of the alternatives, Dirichlet laws around the target that are off by about 1, 1/2, 1/4, ... 1/512."""

STAKES = 0.5 ** np.arange(1, 11)
"""Shares of the wealth to bet on more acceptance than the optimum."""


def log_evidence(counts: IntArray, law: FloatArray) -> float:
    """Evidence that independent draws with these counts, shape (k,), do not come from the law, shape (k,).

    The likelihood of the draws if their law were itself drawn from a mixture of Dirichlet laws, over the likelihood
    under `law`: a test martingale.  Infinite once a token of probability 0 is drawn.
    """
    return float(_mean(_by_alternative(counts[None], law)))


def log_dependence(transitions: IntArray, law: FloatArray) -> FloatArray:
    """Evidence that a draw depends on an earlier one: `transitions`, shape (..., k, k), counts pairs (before, after).

    For each token before, the tokens after it are independent draws from the law, shape (k,), if the rule is lossless;
    the product of these tests is the test of a Markov chain, all rows off by about as much.  The result has the shape
    of `transitions` without its last two axes.
    """
    return _mean(_by_alternative(transitions, law))


def log_excess(hits: int, draws: int, optimum: float) -> float:
    """Evidence that the output is a draft more often than alpha*: bets on it, at several stakes.

    The wealth of such a bet is a supermartingale if the mean is at most alpha* [waudbysmith2024estimating].
    """
    optimum = min(max(optimum, 0.0) + TIE_TOL, 1.0)
    won, lost = np.log1p(STAKES * (1.0 - optimum) / optimum), np.log1p(-STAKES)
    return float(_mean(hits * won + (draws - hits) * lost))


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
    """Log of the likelihood ratio of counts, shape (..., rows, k), the rows multiplied; shape (alternatives, ...)."""
    seen = counts.any(axis=tuple(range(counts.ndim - 1)))
    if (law[seen] == 0).any():
        return np.full((1 + CONCENTRATIONS.size, *counts.shape[:-2]), np.inf)
    flat = np.where(law > 0, 0.5, 0.0)  # catches a token of tiny probability when it is first drawn
    priors = np.vstack((flat, CONCENTRATIONS[:, None] * law))
    totals = priors.sum(axis=1)
    counts, law, priors = counts[..., seen], law[seen], priors[:, seen]  # what was not drawn has a factor of 1
    expand = (slice(None), *(None,) * (counts.ndim - 1))
    totals, priors = totals[expand], priors[expand]
    drawn = (gammaln(priors + counts) - gammaln(priors)).sum(axis=-1)
    ratio = drawn - gammaln(totals + counts.sum(axis=-1)) + gammaln(totals) - xlogy(counts, law).sum(axis=-1)
    return cast(FloatArray, ratio.sum(axis=-1))


def _mean(logs: FloatArray) -> FloatArray:
    """Log of the mean of exp(logs), along the first axis."""
    return cast(FloatArray, np.logaddexp.reduce(logs, axis=0) - math.log(len(logs)))

"""Fitting the release probabilities of one block: a fixed point on a small copy, then the exact law."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from otspec.jit import jit
from otspec.kernels.arrivals import Nodes
from otspec.kernels.quadrature import quadrature
from otspec.laws import BoolArray, FloatArray, IntArray
from otspec.solvers.without_replacement.values import Arrivals, release, start_arrivals, staying_worth

UNMERGED = 40
"""Blocks of at most this many tokens are not merged."""

RESOLUTION = 0.012
"""Tokens are merged up to this much p, and this much of the q that is left when the likeliest are drafted."""

SPREAD = 1.25
"""Largest quotient of p/q within a merged token."""

COARSE_TAIL = 1e-7
"""Mass that the small copy may lose at either end of the time axis."""

FIRST_GUESS = 0.7
"""Worth of staying, as a fraction of what it is before any token is released."""

EXACT_BELOW = 1e-6
"""A tolerance below this is beyond a coarse time axis."""

MAX_STEPS = 30
PATIENCE = 8
"""Steps without any gain before a fit is given up."""

ROUNDS = 2


class Fit(NamedTuple):
    """Release probabilities of a block and the exact law of its picks."""

    released: FloatArray
    """Shape (k,): the probabilities, of the tokens of the block."""
    law: FloatArray
    """Shape (k,): P(the pick is this token)."""


def fit_block(
    q: FloatArray,
    heavy: BoolArray,
    block: slice,
    p: FloatArray,
    owed: FloatArray,
    plain: FloatArray,
    n: int,
    nodes: Nodes,
    tol: float,
) -> Fit:
    """Fit one block to the law it is owed; what comes back is plain priority where nothing finite serves it better.

    Parameters
    ----------
    q : ndarray, shape (V,)
        Draft probabilities of all tokens, in order of priority.
    heavy : ndarray of bool, shape (V,)
        The n - 1 likeliest tokens.
    block : slice
        The k tokens of the block.
    p, owed, plain : ndarray, shape (k,)
        Target law, the law to come near to, and the law by plain priority, of the tokens of the block; the block can
        give just sum(owed).
    n : int
        Number of drafts.
    nodes : Nodes
        Of the draft law.
    tol : float
        Mass that the law may lack below `min(p, owed)`, a probability.

    Returns
    -------
    Fit
        Of the block.
    """
    start, end = block.start, block.stop
    rule = quadrature(n) if end < q.size else (np.ones(1), np.array([1.0 / n]))
    arrivals = start_arrivals(q, heavy, start, end, nodes, *rule)
    released, gained = np.empty(end - start), np.empty(end - start)
    small_nodes = nodes if tol < EXACT_BELOW else Nodes.of(q, n, 1 if n < 5 else 2, COARSE_TAIL)
    group = np.arange(end - start)
    if group.size > UNMERGED:
        group = merge(q[block], heavy[block], p, RESOLUTION * q[~heavy].sum())
    first = np.flatnonzero(np.diff(group, prepend=-1))
    small_q = np.concatenate((q[:start], np.add.reduceat(q[block], first), q[end:]))
    small_heavy = np.concatenate((heavy[:start], heavy[block][first], heavy[end:]))
    small = start_arrivals(small_q, small_heavy, start, start + first.size, small_nodes, *rule)
    mass, small_p, small_owed = (np.add.reduceat(values, first) for values in (q[block], p, owed))
    factor = np.ones(first.size)
    small_released, small_worth = np.empty(first.size), np.empty(first.size)
    best = Fit(np.ones(end - start), plain)
    least = float(np.maximum(np.minimum(p, owed) - plain, 0.0).sum())
    for _ in range(ROUNDS):
        fixed_point(small, small_p, small_owed, factor, 0.25 * tol, small_released, small_worth)
        # A token's share of its group first: the worth of a subnormal q over that q may exceed every float.
        law = law_after_release(arrivals, owed, q[block] / mass[group] * small_worth[group], released, gained)
        lost = float(np.maximum(np.minimum(p, owed) - law, 0.0).sum())
        if lost < least:
            best, least = Fit(released.copy(), law), lost
        if lost <= tol:
            break
        # What staying is worth, exactly and in the small copy, at the same release probabilities.
        exact = (law - gained) / np.maximum(1.0 - released, 1e-300)
        stays = released < 1.0
        weight = np.add.reduceat(np.where(stays, q[block], 0.0), first)
        portion = np.divide(weight, mass, out=np.ones_like(mass), where=weight > 0)
        average = np.add.reduceat(np.where(stays, exact, 0.0), first) / portion
        staying_worth(small, np.add.reduceat(q[block] / mass[group] * released, first), small_worth)
        usable = (weight > 0) & (small_worth > 0) & (average > 0)
        factor = np.where(usable, average / np.where(usable, small_worth, 1.0), factor)
    return best


@jit
def merge(q: FloatArray, heavy: BoolArray, p: FloatArray, resolution: float) -> IntArray:
    """The groups of neighbours in p/q that the small copy takes for one token each.

    Parameters
    ----------
    q : ndarray, shape (k,)
        Draft probabilities of a block, by falling p/q.
    heavy : ndarray of bool, shape (k,)
        Tokens that stay alone.
    p : ndarray, shape (k,)
        Target probabilities.
    resolution : float
        Largest q of a group, a probability.

    Returns
    -------
    ndarray of int, shape (k,)
        The number of each token's group, ascending from 0.
    """
    group = np.empty(q.size, dtype=np.int64)
    number = -1
    mass, target, highest = 0.0, 0.0, 0.0
    closed = True
    for j in range(q.size):
        alone = heavy[j] or q[j] > resolution or p[j] > RESOLUTION
        apart = mass + q[j] > resolution or target + p[j] > RESOLUTION or highest * q[j] > SPREAD * p[j]
        if closed or alone or apart:
            number += 1
            mass, target, highest = 0.0, 0.0, p[j] / q[j]
        group[j] = number
        mass += q[j]
        target += p[j]
        closed = alone
    return group


@jit
def law_after_release(
    arrivals: Arrivals, owed: FloatArray, worth: FloatArray, released: FloatArray, gained: FloatArray
) -> FloatArray:
    """Release with that worth, and return the law of the pick that comes of it, whatever the worth really is.

    Parameters
    ----------
    arrivals : Arrivals
        In a block of k tokens; its working memory is overwritten.
    owed, worth : ndarray, shape (k,)
        As in `release`.
    released, gained : ndarray, shape (k,)
        Filled, as by `release`.

    Returns
    -------
    ndarray, shape (k,)
        P(the pick is this token).
    """
    release(arrivals, owed, worth, released, gained)
    true_worth = np.empty(owed.size)
    staying_worth(arrivals, released, true_worth)
    return gained + (1.0 - released) * true_worth


@jit
def fixed_point(
    arrivals: Arrivals,
    p: FloatArray,
    owed: FloatArray,
    factor: FloatArray,
    tol: float,
    best_released: FloatArray,
    best_worth: FloatArray,
) -> None:
    """Find the worth of staying that comes out again when tokens are released by it.

    Iterates its logarithm with a secant step (Anderson acceleration of depth one).  What is owed is scaled to what the
    block of the small copy can give.

    Parameters
    ----------
    arrivals : Arrivals
        In a block of k tokens; its working memory is overwritten.
    p, owed : ndarray, shape (k,)
        Target law, and the law to come near to.
    factor : ndarray, shape (k,)
        By which the worth of staying is multiplied.
    tol : float
        Mass that the law may lack below `min(p, owed)`, a probability.
    best_released, best_worth : ndarray, shape (k,)
        Filled: the release probabilities that lose least, and the worth of staying that they come from.
    """
    k = owed.size
    released, gained, worth, found = np.zeros(k), np.empty(k), np.empty(k), np.empty(k)
    staying_worth(arrivals, released, worth)
    scale = worth.sum() / owed.sum()
    owed, p = owed * scale, p * scale
    guess, step = np.log(np.maximum(FIRST_GUESS * factor * worth, 1e-300)), np.zeros(k)
    last_guess, last_step = np.zeros(k), np.zeros(k)
    best_released[:], best_worth[:] = released, np.exp(guess)
    least, since = np.inf, 0
    for number in range(MAX_STEPS):
        release(arrivals, owed, np.exp(guess), released, gained)
        staying_worth(arrivals, released, found)
        found *= factor
        lost = 0.0
        for j in range(k):
            lost += max(min(p[j], owed[j]) - gained[j] - (1.0 - released[j]) * found[j], 0.0)
        since += 1
        if lost < least:
            least, since = lost, 0
            best_released[:] = released
            best_worth[:] = np.exp(guess)
        if lost <= tol or since >= PATIENCE:
            break
        above, below = 0.0, 0.0
        for j in range(k):
            step[j] = math.log(max(found[j], 1e-300)) - guess[j]
            if number > 0:
                weight = (1.0 - released[j]) * found[j]
                change = step[j] - last_step[j]
                above += weight * step[j] * change
                below += weight * change * change
        mix = above / below if below > 1e-9 * abs(above) else 0.0
        for j in range(k):
            move = step[j] - mix * (guess[j] - last_guess[j] + step[j] - last_step[j])
            last_guess[j], last_step[j] = guess[j], step[j]
            guess[j] += min(max(move, -1.0), 1.0)

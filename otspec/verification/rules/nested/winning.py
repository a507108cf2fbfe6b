"""Which of several labels is the largest: exact probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from otspec.jit import jit
from otspec.kernels.quadrature import quadrature
from otspec.laws import FloatArray
from otspec.verification.rules.nested.labels import Label
from otspec.verification.rules.nested.powers import climb, descend

FINEST = 26
"""Panels that shrink by 4 towards a point where the integrand may have a root: the last is below an ulp."""
POINTS = 16
"""In the widest of them; the error of Gauss-Legendre sums beside a root falls by 9 with each."""


@jit
def upwards(label: Label, piece: int, fraction: float) -> float:
    """From a fraction of a piece in the last row of a label to that in the first."""
    for row in range(label.power.size, 0, -1):
        low, length = label.low[row, piece], label.length[row, piece]
        fraction = climb(low, length, 0.0, fraction * length, label.power[row - 1])[1]
    return fraction


@jit
def downwards(label: Label, piece: int, fraction: float) -> float:
    """From a fraction of a piece in the first row of a label to that in the last."""
    for row in range(1, label.power.size + 1):
        fraction = descend(label.low[row, piece], label.length[row, piece], fraction, label.power[row - 1])
    return fraction


@jit
def below(mine: Label, other: Label, wins_ties: bool) -> tuple[FloatArray, FloatArray]:
    """P(the other label is the smaller one), as a function of the coordinate of mine, which is uniform on [0, 1].

    The first rows of both labels are in the coordinate of one node.  The function is smooth between the points that
    are returned, affine if there are no other rows, and may jump where two of them coincide.  Pieces are compared by
    the differences of their ends, so that short ones keep their digits.

    Parameters
    ----------
    wins_ties : bool
        Whether mine wins where two pieces are equal in floats.

    Returns
    -------
    at, value : ndarray
    """
    unit = max(mine.scale, other.scale)
    scale, of_other = mine.scale / unit, other.scale / unit
    at, value = [0.0 for _ in range(0)], [0.0 for _ in range(0)]
    start, passed, first = 0.0, 0.0, 0
    for i in range(mine.share.size):
        low, length, share = mine.low[0, i] * scale, mine.length[0, i] * scale, mine.share[i]
        while first < other.share.size:
            ahead = other.low[0, first] * of_other - low
            if ahead >= 0.0 or ahead + other.length[0, first] * of_other > 0.0:
                break
            passed += other.share[first]
            first += 1
        at.append(start)
        done = passed
        for j in range(first, other.share.size):
            ahead, extent = other.low[0, j] * of_other - low, other.length[0, j] * of_other
            if ahead == 0.0 and extent == 0.0 and length == 0.0 and wins_ties:
                done += other.share[j]
                continue
            if ahead >= length:
                break
            if ahead > 0.0:
                if len(value) < len(at):
                    value.append(done)
                at.append(start + share * downwards(mine, i, ahead / length))
                value.append(done)
            elif len(value) < len(at):
                value.append(done + other.share[j] * downwards(other, j, -ahead / extent if ahead < 0.0 else 0.0))
            if ahead + extent > length:
                at.append(start + share)
                value.append(done + other.share[j] * downwards(other, j, (length - ahead) / extent))
                break
            done += other.share[j]
            at.append(start + share * downwards(mine, i, (ahead + extent) / length))
            value.append(done)
        if len(value) < len(at):
            value.append(done)
        start += share
        if at[-1] < start:
            at.append(start)
            value.append(done)
    return np.array(at), np.array(value)


@jit
def share_below(mine: Label, other: Label, at: FloatArray, wins_ties: bool) -> FloatArray:
    """`below` at some coordinates of mine, shape (m,), ascending, none of them among the points of `below`."""
    unit = max(mine.scale, other.scale)
    scale, of_other = mine.scale / unit, other.scale / unit
    value = np.empty(at.size)
    i, start = 0, 0.0
    for k in range(at.size):
        while i < mine.share.size - 1 and at[k] >= start + mine.share[i]:
            start += mine.share[i]
            i += 1
        length = mine.length[0, i] * scale
        inside = upwards(mine, i, min((at[k] - start) / mine.share[i], 1.0)) * length
        done = 0.0
        for j in range(other.share.size):
            ahead, extent = other.low[0, j] * of_other - mine.low[0, i] * scale, other.length[0, j] * of_other
            if ahead == 0.0 and extent == 0.0 and length == 0.0 and wins_ties:
                done += other.share[j]
                continue
            beyond = inside - ahead
            if beyond <= 0.0:
                break
            if beyond < extent:
                done += other.share[j] * downwards(other, j, beyond / extent)
                break
            done += other.share[j]
        value[k] = done
    return value


@cache
def graded() -> tuple[FloatArray, FloatArray]:
    """Points and weights on [0, 1] for functions that are smooth but for roots at 0, or near it on the left."""
    points, weights, high = [], [], 1.0
    for panel in range(FINEST, -1, -1):
        low = high / 4 if panel else 0.0
        at, weight = np.polynomial.legendre.leggauss(POINTS * panel // (2 * FINEST) + POINTS // 2)
        points.append(low + (high - low) * (0.5 + 0.5 * at))
        weights.append((high - low) * 0.5 * weight)
        high = low
    return np.concatenate(points[::-1]), np.concatenate(weights[::-1])


def largest(labels: Sequence[Sequence[Label]]) -> FloatArray:
    """Exact probability that each of several independent labels is the largest, shape (K,).

    Given its own coordinate, a label exceeds each of the others with a probability that is affine between the points
    of `below`; so their product is a polynomial of degree K - 1 there, which Gauss-Legendre sums integrate exactly.
    Where powers lie between, it is a root of a polynomial of powers: graded sums have it to rounding.

    Parameters
    ----------
    labels : sequence of K sequences of K
        Entry (k, m) is label k in a coordinate in which it can be compared with label m; the diagonal is not read.
    """
    count = len(labels)
    roots = any(labels[k][m].power.size for k in range(count) for m in range(count) if m != k)
    nodes, node_weights = graded() if roots else quadrature(count)
    chances = np.empty(count)
    for k in range(count):
        others = [m for m in range(count) if m != k]
        beaten = [below(labels[k][m], labels[m][k], k > m) for m in others]
        cuts = np.unique(np.concatenate([[0.0, 1.0], *(np.minimum(at, 1.0) for at, _ in beaten)]))
        width = np.diff(cuts)
        at = cuts[:-1, None] + width[:, None] * nodes
        product = np.ones_like(at)
        for m, (points, values) in zip(others, beaten, strict=True):
            if labels[k][m].power.size:
                product *= share_below(labels[k][m], labels[m][k], at.ravel(), k > m).reshape(at.shape)
            else:
                product *= np.interp(at, np.maximum.accumulate(points), values)
        chances[k] = width @ (product @ node_weights)
    return chances

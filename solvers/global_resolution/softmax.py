"""Softmax solutions of a system: a convex function of one variable per token, and its minimisation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from otspec.jit import jit
from otspec.laws import FloatArray, IntArray
from otspec.schemes.draft_sets import PAD

REACH = 60.0
"""Variables count as if within -REACH and REACH: where the infimum is not attained they would grow without end."""


class Minimum(NamedTuple):
    """Where a minimisation ended."""

    alpha: FloatArray
    """Shape (t,): the variables."""
    slope: float
    """1-norm of the gradient there: what the rows of the truncated system miss their targets by."""
    iterations: int


def minimise(
    index: IntArray, mass: FloatArray, slack: float, targets: FloatArray, slope: float, max_iterations: int
) -> Minimum:
    """Minimise the truncated function by L-BFGS-B from 0 until its gradient's 1-norm is at most `slope`.

    The function is sum over sets of mass * log(slack + sum over the set of exp(alpha)) - targets @ alpha, Phi_T and
    Theta_T of [thomas2025global, eq. (12), (15)].

    Parameters
    ----------
    index, mass, slack, targets
        As for `value_and_rows`; targets has shape (t,).
    slope : float
        The gradient to stop at.
    max_iterations : int
        The iterations to stop at.
    """
    gradient = np.zeros(targets.size)

    def function(alpha: FloatArray) -> float:
        value, rows = value_and_rows(index, mass, slack, alpha)
        np.subtract(rows, targets, out=gradient)
        miss = float(np.abs(gradient).sum())
        if miss <= slope:
            raise _Flat(alpha.copy(), miss)
        return value - float(targets @ alpha)

    def gradient_there(alpha: FloatArray) -> FloatArray:
        return gradient.copy()  # scipy calls it where it has just evaluated the function

    iterations = 0

    def count(xk: FloatArray) -> None:
        nonlocal iterations
        iterations += 1

    try:
        found = minimize(
            function,
            np.zeros(targets.size),
            jac=gradient_there,
            method="L-BFGS-B",
            callback=count,
            # Without its own tests, which are on the largest entry of the gradient and at the decrease.
            options={"maxiter": max_iterations, "gtol": 0.0, "ftol": 0.0},
        )
    except _Flat as flat:
        return Minimum(np.clip(flat.alpha, -REACH, REACH), flat.slope, iterations)
    rows = value_and_rows(index, mass, slack, found.x)[1]
    return Minimum(np.clip(found.x, -REACH, REACH), float(np.abs(rows - targets).sum()), iterations)


class _Flat(Exception):
    """Raised at the first point that is flat enough: the quickest way out of scipy's loop."""

    def __init__(self, alpha: FloatArray, slope: float) -> None:
        super().__init__()
        self.alpha = alpha
        self.slope = slope


@jit
def value_and_rows(index: IntArray, mass: FloatArray, slack: float, alpha: FloatArray) -> tuple[float, FloatArray]:
    """sum of mass * log(slack + sum over the set of exp(alpha)), and what each token receives: the gradient of that.

    Parameters
    ----------
    index : ndarray, shape (m, n)
        Sets of positions in alpha, each filled up with `PAD`.
    mass : ndarray, shape (m,)
        Probability of each set.
    slack : float
        0 or 1.
    alpha : ndarray, shape (t,)
        Counted as `REACH` where they exceed it.
    """
    weights = np.exp(np.minimum(np.maximum(alpha, -REACH), REACH))
    rows = np.zeros(alpha.size)
    value = 0.0
    for s in range(index.shape[0]):
        total = slack
        for column in range(index.shape[1]):
            if index[s, column] == PAD:
                break
            total += weights[index[s, column]]
        value += mass[s] * np.log(total)
        share = mass[s] / total
        for column in range(index.shape[1]):
            if index[s, column] == PAD:
                break
            rows[index[s, column]] += share * weights[index[s, column]]
    return value, rows

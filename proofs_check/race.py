"""List matching: drafts and output are the winners of races over shared exponential variables [rowan2025list]."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from otspec.laws import FloatArray, IntArray

STEP = 0.25
"""Of log t.  The integrands are sums of t**a exp(-c t), analytic for Re t > 0: their sums err by exp(-pi**2 / STEP)."""

LATEST = 60.0
"""No race lasts longer, but with probability exp(-60)."""

STEEPEST = 1e280
"""p/q above this counts as this: such a token is hardly ever drafted, and powers of it stay finite."""


class Rows(NamedTuple):
    """One draft's row of exponentials, by the tokens that it may have been won by, in ascending p/q."""

    order: IntArray
    """Shape (d,): the tokens that can be drafted."""
    level: FloatArray
    """Shape (d,): phi(p/q), phi(s) the sum over all tokens of max(p, q s)."""
    beyond: FloatArray
    """Shape (d, times): P(a row won by this token, if it was, has not brought the output's race to an end by t)."""


@dataclass(frozen=True, eq=False, repr=False)
class Race:
    """Output argmin over i of the least S_ik / p_i, draft k being argmin over i of S_ik / q_i [rowan2025list, alg. 1].

    S_ik are independent exponential variables.  Given that draft k is x and that its S_xk / q_x is t s, the others
    are q_i t s and more, so that row k has not ended the output's race by t with probability exp(-t phi(s)), as long as
    s > p_x / q_x.  All figures are integrals over t of products of such terms, to rounding.

    Parameters
    ----------
    p, q : ndarray, shape (V,)
        Target and draft law.
    n : int
        I.i.d. drafts.
    """

    p: FloatArray
    q: FloatArray
    n: int

    @cached_property
    def _times(self) -> FloatArray:
        steepest = max(float(self._ratios[1][-1]), 1.0)
        first = np.log(np.finfo(np.float64).eps / 8) - np.log(steepest)
        return np.exp(np.arange(first, np.log(LATEST), STEP))

    @cached_property
    def _ratios(self) -> tuple[IntArray, FloatArray]:
        """The tokens that can be drafted, shape (d,), and their p/q, ascending."""
        drafted = np.flatnonzero(self.q > 0.0)
        with np.errstate(over="ignore"):
            ratio = np.minimum(self.p[drafted] / self.q[drafted], STEEPEST)
        ranks = np.argsort(ratio, kind="stable")
        return drafted[ranks], ratio[ranks]

    @cached_property
    def _rows(self) -> Rows:
        p, q, t = self.p, self.q, self._times
        order, ratio = self._ratios
        slope = np.minimum(np.cumsum(q[order]), 1.0)  # of phi, from each ratio to the next
        above = np.append(np.cumsum(p[order][::-1])[::-1][1:], 0.0) + p[q == 0.0].sum()
        level = above + ratio * slope
        width = np.append(np.diff(ratio), np.inf)
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            rise = slope[:-1] * width[:-1]
            drop = t * rise[:, None]
            share = np.where(drop > 0.0, -np.expm1(-drop) / np.where(drop > 0.0, drop, 1.0), 1.0)
            parts = t * width[:-1, None] * share * np.exp(-t * level[:-1, None])
            last = np.exp(-t * level[-1]) / slope[-1]
        beyond = np.vstack((parts, last))[::-1].cumsum(axis=0)[::-1]
        return Rows(order, level, beyond)

    def _integral(self, values: FloatArray) -> FloatArray:
        """Over t, of values at the times along the last axis."""
        total: FloatArray = (values * self._times).sum(axis=-1) * STEP
        return total

    @cached_property
    def acceptance(self) -> float:
        """P(the output is one of the drafts)."""
        order, level, beyond = self._rows
        n, t = self.n, self._times
        p, q = self.p[order][:, None], self.q[order][:, None]
        undrafted = np.exp(-t) - q * beyond  # a row has not ended the race, and the token has not won it
        first = np.exp(-t) * -np.expm1(-t * np.maximum(level - 1.0, 0.0)[:, None])
        missed = self._integral(n * p * first * np.maximum(undrafted, 0.0) ** (n - 1))
        return float(np.maximum(self.p[order] - missed, 0.0).sum())

    def conditional(self, drafts: IntArray) -> FloatArray:
        """Exact law of the output given drafts that can occur: shape (n,) to (V,)."""
        order, level, beyond = self._rows
        p, t = self.p, self._times
        rank = np.full(p.size, order.size)
        rank[order] = np.arange(order.size)
        later = np.vstack((beyond, np.zeros_like(t)))[rank]
        alive = beyond[rank[drafts]]
        law = np.zeros(p.size)
        for k, x in enumerate(drafts.tolist()):
            others = np.prod(np.delete(alive, k, axis=0), axis=0)
            won = p[:, None] * np.maximum(beyond[rank[x]] - later, 0.0)
            won[x] = self._ratios[1][rank[x]] * np.exp(-t * level[rank[x]])
            law += self._integral(won * others)
        return law / law.sum()

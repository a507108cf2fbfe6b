"""Luce's choice among the drafts: one weight per token, and the law of the pick by quadrature.

Draft w_l is picked with probability W(w_l) / sum over m of W(w_m) [luce1959individual], as the first of exponential
clocks with rates W would be.  For independent drafts the pick has therefore the law

    g_i = W_i * integral over t > 0 of exp(-t W_i) * sum over l of q_l,i * prod over m /= l of phi_m(t) dt,
    phi_m(t) = sum over j of q_m,j exp(-t W_j),

without a sum over tuples.  The trapezoid rule in log t converges like exp(-pi**2 / h) for step h.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from otspec.errors import ProblemError
from otspec.jit import jit
from otspec.laws import FloatArray, IntArray
from otspec.schemes import IID, Independent

FINE = 3, 26
"""Steps per octave of t, and octaves below the fastest rate: g to about 1e-15, in the mean over the vocabulary."""

STRIDE = 3.0
"""Longest step of a log weight: the first ones start far from where the slope predicts well."""

SHALLOW = 0.05
"""Least d log g / d log W that a step relies on."""


def laws_and_counts(scheme: IID | Independent) -> tuple[FloatArray, IntArray]:
    """The draft laws, shape (m, V), and how many drafts follow each, shape (m,)."""
    if isinstance(scheme, IID):
        return scheme.q[None], np.array([scheme.n])
    return scheme.qs, np.ones(scheme.n, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class LuceRule:
    """Pick among the drafts with odds in proportion to one weight per token."""

    scheme: IID | Independent
    odds: FloatArray
    """W, shape (V,), at most 1; 0 marks tokens that no draft reaches."""

    @cached_property
    def proposal(self) -> FloatArray:
        """g, shape (V,): the law of the picked token when the drafts come from the scheme."""
        laws, counts = laws_and_counts(self.scheme)
        reached = np.flatnonzero(self.odds)
        law, slope = np.empty((2, reached.size))
        luce_law(np.ascontiguousarray(laws[:, reached]), counts, self.odds[reached], *FINE, law, slope)
        full = np.zeros(self.scheme.vocab)
        full[reached] = law
        return full

    def weights(self, drafts: IntArray) -> FloatArray:
        """Probability of picking each draft, shape (n,) to (n,).

        Raises
        ------
        ProblemError
            If a draft has probability 0.
        """
        laws, counts = laws_and_counts(self.scheme)
        impossible = np.repeat(laws, counts, axis=0)[np.arange(self.scheme.n), drafts] == 0
        if impossible.any():
            raise ProblemError(f"drafts hold {drafts[impossible.argmax()]}, whose draft probability is 0")
        odds = self.odds[drafts]
        return odds / odds.sum()


@jit
def luce_law(
    laws: FloatArray, counts: IntArray, odds: FloatArray, steps: int, octaves: int, law: FloatArray, slope: FloatArray
) -> None:
    """Fill in g and its derivatives by the token's own log weight where phi is held.

    Parameters
    ----------
    laws : ndarray, shape (m, k)
        Draft laws.
    counts : ndarray of int, shape (m,)
        How many drafts follow each.
    odds : ndarray, shape (k,)
        W > 0, at most 1.
    steps, octaves : int
        Steps per octave of t, and octaves below 1/n at which t starts; what lies below is summed to first order.
    law, slope : ndarray, shape (k,)
        Filled.
    """
    # Doubling t squares exp(-t W); its complement y obeys y -> y (2 - y), which keeps all digits of a small t W.
    kinds = counts.size
    done = np.empty(odds.size)
    left = np.empty(odds.size)
    pull = np.empty(odds.size)
    phi = np.empty(kinds)
    share = np.empty(kinds)
    law[:] = 0.0
    slope[:] = 0.0
    step = np.log(2.0) / steps
    for offset in range(steps):
        t = 2.0 ** (offset / steps - octaves) / counts.sum()
        node = step * (1.0 + 1.0 / np.expm1(step)) if offset == 0 else step
        done[:] = -np.expm1(-t * odds)
        running = 1.0
        while running > 1e-16:
            left[:] = 1.0 - done
            np.dot(laws, left, phi)
            running = 1.0
            for kind in range(kinds):
                running *= phi[kind] ** counts[kind]
                share[kind] = node * t * counts[kind] * phi[kind] ** (counts[kind] - 1)
                for other in range(kinds):
                    if other != kind:
                        share[kind] *= phi[other] ** counts[other]
            np.dot(share, laws, pull)
            for i in range(odds.size):
                gain = left[i] * pull[i]
                law[i] += gain
                slope[i] += t * gain
                twice = done[i] * (2.0 - done[i])
                done[i] = twice if left[i] > 1e-8 else 1.0
            node = step
            t *= 2.0
    for i in range(odds.size):
        slope[i] = odds[i] * (law[i] - odds[i] * slope[i])
        law[i] *= odds[i]


@jit
def improve(
    p: FloatArray,
    laws: FloatArray,
    counts: IntArray,
    height: float,
    steps: int,
    octaves: int,
    iterations: int,
    level: FloatArray,
    unclipped: FloatArray,
) -> None:
    """Move the log weights `level`, kept within +-height, towards g = p by Newton steps along the diagonal.

    This minimises the convex E log(sum of the drafts' weights) - sum p log W over a box.  Where it ends, g is p, or
    below p at +height, or above p at -height: what complementary slackness requires of under- and over-drafted tokens.

    Parameters
    ----------
    p : ndarray, shape (k,)
        Target probabilities of the tokens that can be drafted.
    laws : ndarray, shape (m, k)
        Draft laws.
    counts : ndarray of int, shape (m,)
        How many drafts follow each.
    height : float
        Largest log weight in absolute value.
    steps, octaves : int
        As in `luce_law`.
    iterations : int
        Newton steps to take.
    level : ndarray, shape (k,)
        Log weights; updated.
    unclipped : ndarray, shape (k,)
        Filled: the log weights of the last step before they were cut to the box, which put the tokens in their order
        of priority.
    """
    odds = np.empty(p.size)
    law = np.empty(p.size)
    slope = np.empty(p.size)
    for iteration in range(iterations):
        # The error is multiplied by a matrix with eigenvalues in [0, 1], or for distinct laws in [-1, 1]: -1 where one
        # draft lies here and one there for sure, and both sides correct one mismatch.  Every other step is halved then.
        damping = 0.5 if counts.size > 1 and iteration % 2 == 1 else 1.0
        odds[:] = np.exp(level - level.max())
        luce_law(laws, counts, odds, steps, octaves, law, slope)
        for i in range(p.size):
            if p[i] <= 0.0:
                move = -STRIDE
            elif law[i] <= 0.0:
                move = STRIDE
            else:
                move = damping * np.log(p[i] / law[i]) / max(slope[i] / law[i], SHALLOW)
            unclipped[i] = level[i] + min(max(move, -STRIDE), STRIDE)
            level[i] = min(max(unclipped[i], -height), height)

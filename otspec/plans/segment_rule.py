"""The optimal pick rule for systematic drafts: a choice on each segment of the circle."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from otspec.kernels.circular_arcs import Segments, earliest_deadline
from otspec.laws import FloatArray, IntArray, sum_by
from otspec.schemes import CircularArcs


@dataclass(frozen=True, eq=False)
class SegmentRule:
    """A pick rule that looks up on which segment of the circle the drafts were drawn."""

    scheme: CircularArcs
    shares: FloatArray
    """Shape (m, n): the weights of the drafts on each segment."""

    @cached_property
    def proposal(self) -> FloatArray:
        """g, shape (V,): the law of the picked token when the drafts come from the scheme."""
        drafts, mass = self.scheme.support()
        return sum_by(drafts.reshape(-1), (self.shares * mass[:, None]).reshape(-1), self.scheme.vocab)

    def weights(self, drafts: IntArray) -> FloatArray:
        """Probability of picking each draft, shape (n,) to (n,).

        Raises
        ------
        ProblemError
            If the drafts cannot occur in this order.
        """
        return self.shares[self.scheme.segment(drafts)]


def optimal_segment_rule(p: FloatArray, arcs: CircularArcs) -> tuple[SegmentRule, IntArray]:
    """An optimal pick rule, and the over-drafted tokens.

    O(V log V + n V) for any laws; `otspec.kernels.circular_arcs` has the statement and its proof.

    Parameters
    ----------
    p : ndarray, shape (V,)
        Target law.
    arcs : CircularArcs
        The law of the drafts.

    Returns
    -------
    rule : SegmentRule
    over_drafted : ndarray of int, shape (h,)
        H*: ascending ids; none if all drafts are accepted.
    """
    segments = Segments(arcs.support().probabilities, arcs.cover, arcs.spans)
    idle, served, tight = earliest_deadline(segments, p[arcs.tokens])
    over_drafted = np.zeros(p.size, dtype=bool)
    if tight is not None:
        over_drafted[arcs.reachable()] = True
        over_drafted[arcs.tokens[tight]] = False
    patient = p[arcs.always]
    total = max(idle.sum(), patient.sum())
    taken = idle[:, None] * (patient / total if total > 0 else patient)
    if patient.sum() >= idle.sum():
        over_drafted[:] = False
    shares = np.concatenate((taken, served), axis=1)
    accepted = shares.sum(axis=1, keepdims=True)
    shares = np.divide(shares, accepted, out=np.full_like(shares, 1 / arcs.n), where=accepted > 0)
    return SegmentRule(arcs, shares), np.flatnonzero(over_drafted)

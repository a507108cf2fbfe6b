"""The optimal acceptance alpha*, with a proof of optimality that needs no trust in the code that found it.

Two inequalities hold for every token set H and every law g that some choice among the drafts can have:

    sum_x min(p(x), g(x))  <=  alpha*  <=  P(some draft outside H) + p(H).

The left one is the acceptance of picking a draft with law g and verifying it as a single draft of g; the right one is
`Problem.bound`.  Where both sides meet, g and H* certify each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from otspec.flow import Network, min_cut
from otspec.laws import FloatArray, IntArray, sum_by
from otspec.problem import Problem
from otspec.schemes.draft_sets import DraftSets
from otspec.tolerances import TIE_TOL


@dataclass(frozen=True, eq=False)
class Optimum:
    """The optimal acceptance of a problem and its certificate."""

    acceptance: float
    """sum_x min(p(x), g(x)) for the proposal g: alpha* from below."""
    bound: float
    """P(some draft outside H*) + p(H*): alpha* from above."""
    minimiser: IntArray
    """H*: ascending ids of the over-drafted tokens, [thomas2025global, section 5.1]."""
    proposal: FloatArray
    """g, shape (V,): the law of the picked draft, at most p outside H* and at least p on it."""

    @property
    def gap(self) -> float:
        """bound - acceptance: 0 up to rounding."""
        return self.bound - self.acceptance


def optimum(problem: Problem) -> Optimum:
    """alpha*, H* and g in O(V log V) where prefixes of one order decide, as for i.i.d. drafts; else by maximum flow.

    Along such an order (for i.i.d. drafts, decreasing p/q) g follows the greatest convex minorant of the hit function
    against p: on each of its segments g is a multiple of p, and the segments of slope above 1 form H*.  This g also
    minimises every other f-divergence from p.

    For any other scheme the sets of drafts are listed and the transport is solved as a maximum flow; g is then the law
    of the pick that the flow defines [thomas2025global, Theorem 4.1] and H* comes from the minimum cut.
    """
    order = problem.scheme.prefix_order(problem.p)
    proposal, minimiser = _by_flow(problem) if order is None else _by_prefixes(problem, order)
    acceptance = float(np.minimum(problem.p, proposal).sum())
    return Optimum(acceptance, problem.bound(minimiser), minimiser, proposal)


def _by_prefixes(problem: Problem, order: IntArray) -> tuple[FloatArray, IntArray]:
    proposal = problem.scheme.priority_law(order)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        slope = proposal[order] / problem.p[order]
    # Where p is 0, or too small to divide by, the slope is infinite, even if the priority law has underflowed to 0:
    # these tokens come last, keep that law, and count as over-drafted if they can be drafted at all.
    pooled = np.isfinite(slope) & (slope < 1e290)
    tokens = order[pooled]
    slope = isotonic_regression(slope[pooled], weights=problem.p[tokens]).x
    over_drafted = np.zeros(problem.vocab, dtype=bool)
    over_drafted[problem.scheme.reachable()] = True
    over_drafted[tokens] = slope > 1 + TIE_TOL
    proposal[tokens] = slope * problem.p[tokens]
    return proposal, np.flatnonzero(over_drafted)


def _by_flow(problem: Problem) -> tuple[FloatArray, IntArray]:
    sets = problem.scheme.draft_sets()
    flow, source_side = min_cut(Network.of(problem, sets))
    proposal = pick_law(sets, pick_weights(sets, flow), problem.vocab)
    if flow.sum() >= 1 - TIE_TOL:
        return proposal, np.empty(0, dtype=np.int64)  # the smallest minimiser: no token is over-drafted
    return proposal, problem.scheme.reachable()[~source_side]


def pick_weights(sets: DraftSets, accepted: FloatArray) -> FloatArray:
    """beta(token | set) of each cell: in proportion to the mass accepted there, uniform where none is.

    This is Theorem 4.1 of [thomas2025global]: it turns any optimal solution of the relaxed transport program into an
    optimal choice among the drafts.
    """
    totals = np.add.reduceat(accepted, sets.indptr[:-1])[sets.owner]
    sizes = np.diff(sets.indptr)[sets.owner]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(totals > 0, accepted / totals, 1.0 / sizes)


def pick_law(sets: DraftSets, weights: FloatArray, vocab: int) -> FloatArray:
    """Law g, shape (V,), of the draft picked with the given weights per cell."""
    return sum_by(sets.cells, weights * sets.mass[sets.owner], vocab)

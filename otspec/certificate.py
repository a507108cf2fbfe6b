"""The optimal acceptance alpha*, with a proof of optimality that needs no trust in the code that found it.

Two inequalities hold for every token set H and every law g that some choice among the drafts can have:

    sum_x min(p(x), g(x))  <=  alpha*  <=  P(some draft outside H) + p(H).

The left one is the acceptance of picking a draft with law g and verifying it as a single draft of g; the right one is
`Problem.bound`.  Where both sides meet, g and H* certify each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from otspec.errors import ProblemError
from otspec.kernels.majorant import concave_blocks
from otspec.kernels.max_flow import Network, min_cut
from otspec.kernels.pair_cut import pair_cut
from otspec.laws import FloatArray, IntArray
from otspec.problem import Problem
from otspec.schemes import DraftSets, Independent
from otspec.schemes.draft_sets import pick_law, pick_weights
from otspec.tolerances import TIE_TOL

MAX_CELLS = 4_000_000
"""The largest network that `optimum` solves by default: some seconds, and some 100 bytes a cell."""

FLOW_CELLS = 100_000
"""Beyond this many cells an upper bound on a rule is not worth a maximum flow."""


@dataclass(frozen=True, eq=False, repr=False)
class Optimum:
    """The optimal acceptance of a problem and its certificate.

    Examples
    --------
    >>> import numpy as np
    >>> import otspec
    >>> p = np.array([0.5, 0.3, 0.2])
    >>> best = otspec.optimum(otspec.Problem(p, otspec.IID([0.2, 0.3, 0.5], n=2)))

    Both halves of the certificate can be checked by hand: picks of law g accept sum min(p, g), and no rule more than
    P(some draft outside H*) + p(H*).

    >>> print(f"{np.minimum(p, best.proposal).sum():.3f} {1 - 0.8**2 + p[best.minimiser].sum():.3f}")
    0.860 0.860
    """

    acceptance: float
    """sum_x min(p(x), g(x)) for the proposal g: alpha* from below."""
    bound: float
    """P(some draft outside H*) + p(H*): alpha* from above."""
    minimiser: IntArray
    """H*, shape (h,): ascending ids of the over-drafted tokens, [thomas2025global, section 5.1]."""
    proposal: FloatArray
    """g, shape (V,): the law of the picked draft, at most p outside H* and at least p on it."""

    def __repr__(self) -> str:
        return (
            f"<Optimum: acceptance {self.acceptance:.9g}, gap {self.gap:.1e}, "
            f"{self.minimiser.size} of {self.proposal.size} tokens over-drafted>"
        )

    @property
    def gap(self) -> float:
        """bound - acceptance: 0 up to rounding."""
        return self.bound - self.acceptance


def optimum(problem: Problem, max_cells: int = MAX_CELLS) -> Optimum:
    """alpha*, H* and g, in O(V log V) where prefixes of one order decide, as for i.i.d. drafts.

    Along such an order (for i.i.d. drafts, decreasing p/q) g follows the greatest convex minorant of the hit function
    against p: on each of its segments g is a multiple of p, and the segments of slope above 1 form H*.  This g also
    minimises every other f-divergence from p.

    A single draft leaves nothing to choose: g is its law.  Two drafts from laws of their own are solved by a flow
    among the tokens (`otspec.kernels.pair_cut`) [thomas2025global, Appendix D].
    For any other scheme the sets of drafts are listed and the transport is solved as a maximum flow; g is then the law
    of the pick that the flow defines [thomas2025global, Theorem 4.1] and H* comes from the minimum cut.

    Parameters
    ----------
    problem : Problem
    max_cells : int
        Largest such flow, in drafts times draft sets.

    Raises
    ------
    ProblemError
        If the flow would be larger; `otspec.solve` then has a plan with a certified gap.

    Examples
    --------
    >>> import otspec
    >>> best = otspec.optimum(otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2)))
    >>> print(f"{best.acceptance:.3f}", best.minimiser, best.gap < 1e-12)
    0.860 [1 2] True
    """
    if not isinstance(problem, Problem):
        raise ProblemError(f"the problem is a {type(problem).__name__}; pass an otspec.Problem(p, scheme)")
    if problem.n == 1:
        proposal = single_draft_law(problem)
        minimiser = np.flatnonzero(proposal > problem.p * (1 + TIE_TOL))
    elif (order := problem.scheme.prefix_order(problem.p)) is not None:
        proposal, minimiser = _by_prefixes(problem, order)
    else:
        cells = cells_at_most(problem)
        if cells > max_cells:
            raise ProblemError(
                f"the optimum of {type(problem.scheme).__name__} drafts is a flow through {readable(cells)} cells, "
                f"more than max_cells = {max_cells:,}; take the acceptance and the bound of "
                "otspec.solve(problem).plan, truncate the drafts, or raise max_cells"
            )
        by_tokens = isinstance(problem.scheme, Independent) and problem.n == 2
        proposal, minimiser = (_by_pairs if by_tokens else _by_flow)(problem)
    acceptance = float(np.minimum(problem.p, proposal).sum())
    return Optimum(acceptance, problem.bound(minimiser), minimiser, proposal)


def cells_at_most(problem: Problem) -> int:
    """An upper bound on the number of (draft set, token of it) pairs, without listing them."""
    return problem.n * problem.scheme.set_count()


def readable(size: int) -> str:
    """A size as messages show it: every digit, or its order of magnitude where there are too many."""
    return f"{size:,}" if size < 10**15 else f"{size:.1e}"


def single_draft_law(problem: Problem) -> FloatArray:
    """Law, shape (V,), of the draft of a scheme with n = 1."""
    return problem.scheme.prob(np.arange(problem.vocab)[:, None])


class Minorant(NamedTuple):
    """The greatest convex minorant of the hit function against p, along an order of which prefixes decide."""

    tokens: IntArray
    """Shape (m,): the tokens of the order that can be drafted or have target mass; all others weigh nothing."""
    starts: IntArray
    """Shape (segments,): where in `tokens` they start."""
    hit: FloatArray
    """Shape (m,): what the hit function gains on the segment of each token."""
    target: FloatArray
    """Shape (m,): target mass of that segment."""
    law: FloatArray
    """Shape (m,): the proposal, on each segment a multiple of p."""
    by_order: FloatArray
    """Shape (m,): law of the pick along the order itself."""


def minorant(problem: Problem, order: IntArray) -> Minorant:
    """The minorant along an order.

    Parameters
    ----------
    problem : Problem
        Of V tokens.
    order : ndarray of int, shape (V,)
        All tokens, as `DraftScheme.prefix_order` gives them.
    """
    law = problem.scheme.priority_law(order)
    # The minorant of f from the left is the majorant of 1 - f from the right.  Tokens that weigh nothing bend neither.
    falling = order[::-1][((law > 0) | (problem.p > 0))[order[::-1]]]
    law, target = law[falling], problem.p[falling]
    end, rise, run = np.zeros(law.size + 1, dtype=np.int32), np.zeros(law.size + 1), np.zeros(law.size + 1)
    blocks = concave_blocks(target, law, np.ones_like(law), end, rise, run)
    sizes = np.diff(end[: blocks + 1])
    rise, run = np.repeat(rise[1 : blocks + 1], sizes), np.repeat(run[1 : blocks + 1], sizes)
    with np.errstate(invalid="ignore"):
        # A block without target mass has nothing to share its law by, and no use for it.
        shared = np.where(run > 0, rise * (target / run), law)
    starts = falling.size - end[blocks:0:-1].astype(np.int64)
    return Minorant(falling[::-1], starts, rise[::-1], run[::-1], shared[::-1], law[::-1])


def transport_network(problem: Problem, sets: DraftSets) -> Network:
    """The network of the relaxed program: every token that can be drafted, every draft set that can occur.

    Parameters
    ----------
    problem : Problem
    sets : DraftSets
        Of its scheme.
    """
    tokens = problem.scheme.reachable()
    number = np.zeros(problem.vocab, dtype=np.int64)
    number[tokens] = np.arange(tokens.size)
    return Network(problem.p[tokens], sets.mass, sets.indptr, number[sets.cells])


def best_prefix(hits: FloatArray, p: FloatArray) -> float:
    """The least P(some draft in A) + 1 - p(A) over the prefixes A of an order: a bound on every rule's acceptance.

    Parameters
    ----------
    hits : ndarray, shape (k + 1,)
        P(some draft in A) of the prefixes of an order of k tokens, as `DraftScheme.hit_chain` gives them.
    p : ndarray, shape (k,)
        Target probabilities in that order; tokens that are left out come first, in every A.
    """
    outside = np.append(np.cumsum(p[::-1])[::-1], 0.0)
    return float((hits + outside).min())


def upper_bound(problem: Problem) -> float:
    """A certified upper bound on the acceptance of every rule: alpha* itself where that is cheap.

    Along the scheme's prefix order, the best prefix is alpha*.  Without such an order, small problems are solved by
    maximum flow; for large ones, where that would mean listing every draft set, decreasing p over the law of the first
    draft (over 1 where that is unknown) is the order: the bound still holds, as any token set's does, but need not be
    attained.

    Parameters
    ----------
    problem : Problem

    Returns
    -------
    float
        A probability.
    """
    scheme, p = problem.scheme, problem.p
    order = scheme.prefix_order(p)
    if order is None:
        if cells_at_most(problem) <= FLOW_CELLS:
            return optimum(problem).bound
        drafted = scheme.first_draft()
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            ratio = p if drafted is None else np.where(drafted > 0, p / drafted, np.inf)
        order = np.argsort(-ratio)
    return best_prefix(scheme.hit_chain(order), p[order])


def _by_prefixes(problem: Problem, order: IntArray) -> tuple[FloatArray, IntArray]:
    tokens, _, hit, target, law, _ = minorant(problem, order)
    proposal = np.zeros(problem.vocab)
    proposal[tokens] = law
    over_drafted = np.zeros(problem.vocab, dtype=bool)
    over_drafted[tokens] = hit > target * (1 + TIE_TOL)
    reachable = problem.scheme.reachable()
    over_drafted[reachable] |= problem.p[reachable] == 0  # they cost nothing in p(H)
    return proposal, np.flatnonzero(over_drafted)


def _by_pairs(problem: Problem) -> tuple[FloatArray, IntArray]:
    assert isinstance(problem.scheme, Independent)
    tokens = problem.scheme.reachable()
    p = problem.p[tokens]
    load, over_drafted = pair_cut(p, problem.scheme.pair_masses())
    proposal = np.zeros(problem.vocab)
    proposal[tokens] = load
    if np.maximum(load - p, 0.0).sum() <= TIE_TOL:
        return proposal, np.empty(0, dtype=np.int64)  # the smallest minimiser: no token is over-drafted
    return proposal, tokens[over_drafted]


def _by_flow(problem: Problem) -> tuple[FloatArray, IntArray]:
    sets = problem.scheme.draft_sets()
    flow, source_side = min_cut(transport_network(problem, sets))
    proposal = pick_law(sets, pick_weights(sets, flow), problem.vocab)
    if flow.sum() >= 1 - TIE_TOL:
        return proposal, np.empty(0, dtype=np.int64)  # the smallest minimiser: no token is over-drafted
    return proposal, problem.scheme.reachable()[~source_side]

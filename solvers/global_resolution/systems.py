"""The outer and the inner system of complementary slackness, and their truncation to the tokens that matter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from otspec.certificate import optimum
from otspec.errors import ProblemError
from otspec.jit import jit
from otspec.laws import BoolArray, FloatArray, IntArray
from otspec.plans.figures import residual_law
from otspec.problem import Problem
from otspec.results import Status
from otspec.schemes import IID, Independent, WithoutReplacement
from otspec.solver import Stopped
from otspec.solvers.global_resolution.coefficients import Taken, sets_of


@dataclass(frozen=True, eq=False)
class System:
    """One of the two systems [thomas2025global, eq. (6)] with what its tokens receive from its tuples.

    The outer system holds the tuples with a draft outside H*, which serve their tokens outside H*; the inner system
    those inside H*.  A truncation T keeps the first of the tokens, and drops every tuple with a draft in this system
    that is not in T.
    """

    name: str
    scheme: Taken
    tokens: IntArray
    """Shape (t,): the tokens of the system that can be drafted and have target mass: no other is ever put out.  Those
    whose tuples are the likeliest come first."""
    rest: IntArray
    """Shape (r,): the other tokens that a tuple of the system may hold: H* for the outer system, and for the inner one
    the tokens without target mass, of which the softmax would make little and not nothing."""
    targets: FloatArray
    """Shape (t,): what each receives: the p_i of [thomas2025global, Theorem 6.1], and p itself in the inner system."""
    leaks: FloatArray
    """Shape (t + 1,): epsilon_T or gamma_T, the probability of the tuples that T drops, if it has 0, 1, ... tokens."""
    slack: float
    """Weight of serving none of the tokens: 0 for the outer system, 1 for the inner [thomas2025global, eq. (15)]."""

    @property
    def n(self) -> int:
        """Drafts."""
        return self.scheme.n

    def truncate(self, tau: float) -> tuple[int, float]:
        """Size of the least T that drops tuples of probability at most tau, and that probability, epsilon_T or gamma_T.

        The tokens of largest q make the smallest T where all drafts are from one law.
        """
        size = int(np.argmax(self.leaks <= tau))
        return size, float(self.leaks[size])

    def sets(self, size: int) -> tuple[IntArray, FloatArray]:
        """Sets of the first `size` tokens and the probability that a tuple's drafts in this system form each.

        These are the coefficients of the grouped convex program [thomas2025global, eq. (117), (119)], in the form of
        `sets_of`, shapes (m, n) and (m,).
        """
        return sets_of(self.scheme, self.tokens[:size], self.rest, self.set_count(size))

    def set_count(self, size: int) -> int:
        """How many sets those are, [thomas2025global, eq. (121)]."""
        return sum(math.comb(size, members) for members in range(1, min(size, self.n) + 1))


@dataclass(frozen=True, eq=False)
class Split:
    """A problem cut along H*."""

    problem: Problem
    bound: float
    """alpha* from above."""
    over_drafted: BoolArray
    """Shape (V,): H*, with all that can be drafted and has no target mass: it costs nothing in p(H*)."""
    outer: System
    inner: System
    served: FloatArray
    """Shape (V,): what drafts serve of each token; p minus it is the residual."""

    @classmethod
    def of(cls, problem: Problem) -> Split:
        """Find H*, and what drafts serve of the tokens outside.

        Raises
        ------
        Stopped
            If the search for H* would be larger than `otspec.optimum` allows.
        """
        p, scheme = problem.p, problem.scheme
        assert isinstance(scheme, IID | WithoutReplacement | Independent)
        try:
            best = optimum(problem)
        except ProblemError as error:
            raise Stopped(Status.LIMIT, str(error)) from error
        drafted = scheme.reachable()
        inside = np.zeros(problem.vocab, dtype=bool)
        inside[best.minimiser] = True
        inside[drafted[p[drafted] == 0]] = True
        outside = drafted[~inside[drafted]]
        served = np.where(inside, p, 0.0)
        served[outside] = outer_targets(problem, best.proposal, outside)
        within = drafted[inside[drafted]]
        outer, inner = (
            _likeliest_first(scheme, outside, drafted),
            _likeliest_first(scheme, within[p[within] > 0], within),
        )
        unwanted = within[p[within] == 0]
        order = np.concatenate((outer[::-1], inner[::-1], unwanted, np.setdiff1d(np.arange(problem.vocab), drafted)))
        gains = scheme.priority_law(order)[order]  # of the tuples whose first draft in this order is a token
        leaks = np.cumsum(gains[: outer.size]), np.cumsum(gains[outer.size :][: inner.size])
        epsilon, gamma = (np.append(leak[::-1], 0.0) for leak in leaks)
        return cls(
            problem,
            best.bound,
            inside,
            System("outer", scheme, outer, within, served[outer], epsilon, 0.0),
            System("inner", scheme, inner, unwanted, served[inner], gamma, 1.0),
            served,
        )

    def system_of(self, drafts: IntArray) -> System:
        """The system that a tuple of drafts, shape (n,), belongs to: the inner one if all lie in H*.

        Raises
        ------
        ProblemError
            If the drafts are not a tuple of the scheme, or have probability 0 under it.
        """
        drafts = self.problem.check_drafts(drafts)
        return self.inner if self.over_drafted[drafts].all() else self.outer

    @cached_property
    def residual(self) -> FloatArray:
        """Law, shape (V,), of the output when a tuple inside H* is rejected."""
        return residual_law(self.problem.p, self.served)


def _likeliest_first(scheme: Taken, tokens: IntArray, allowed: IntArray) -> IntArray:
    """Tokens in order of falling probability that a tuple holds them and else allowed ones, to first order."""
    if isinstance(scheme, Independent):
        others = scheme.qs[::-1, allowed].sum(axis=1)  # of two drafts, the mass that the other one has
        return tokens[np.argsort(-(others @ scheme.qs[:, tokens]))]
    return tokens[np.argsort(-scheme.q[tokens])]


def outer_targets(problem: Problem, proposal: FloatArray, outside: IntArray) -> FloatArray:
    """What drafts serve of tokens outside H*: p_i, p minus the outer residual, in O(m log m).

    [thomas2025global, Theorem 6.2 and Lemma 6.3] has it by cumulative minima of psi along rising q/p, for drafts
    without replacement as for i.i.d. ones [thomas2025global, Appendix S].  Here their differences are computed from
    positive terms: each tuple first serves its draft of least q/p, and what exceeds that token's p is handed on to
    tokens of larger q/p.

    Of two drafts from different laws no order is known along which the minima accumulate.  But the flow whose minimum
    cut is H* divides the tuples among their tokens, and what it leaves to those outside H* is feasible as it is.

    Parameters
    ----------
    problem : Problem
    proposal : ndarray, shape (V,)
        The law of an optimal pick, of `otspec.optimum`.
    outside : ndarray of int, shape (m,)
        The tokens outside H* that can be drafted.

    Returns
    -------
    ndarray, shape (m,)
        What drafts serve of each token, a probability.
    """
    p = problem.p
    order = problem.scheme.prefix_order(p)  # falling p/q, the least q/p first
    if order is None:
        return np.minimum(p[outside], proposal[outside])
    mine = np.zeros(problem.vocab, dtype=bool)
    mine[outside] = True
    rising = order[mine[order]]
    income = problem.scheme.priority_law(np.concatenate((rising, np.flatnonzero(~mine))))
    served = np.empty(problem.vocab)
    served[rising] = _waterfall(p[rising], income[rising])
    return served[outside]


@jit
def _waterfall(p: FloatArray, income: FloatArray) -> FloatArray:
    """Serve one after the other: each takes at most p of its income and of what those before it left.

    Parameters
    ----------
    p, income : ndarray, shape (m,)
        What each can take, and what comes in at it, probabilities.

    Returns
    -------
    ndarray, shape (m,)
        What each takes.
    """
    served = np.empty(p.size)
    carried = 0.0
    for j in range(p.size):
        served[j] = min(p[j], income[j] + carried)
        carried = max(income[j] + carried - p[j], 0.0)
    return served

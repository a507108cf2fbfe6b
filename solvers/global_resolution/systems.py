"""The outer and the inner system of complementary slackness, and their truncation to the tokens that matter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from otspec.certificate import optimum
from otspec.jit import jit
from otspec.laws import BoolArray, FloatArray, IntArray
from otspec.plans.figures import residual_law
from otspec.problem import Problem
from otspec.schemes import IID
from otspec.schemes.iid import iid_sets, power_increments


@dataclass(frozen=True, eq=False)
class System:
    """One of the two systems [thomas2025global, eq. (6)] with what its tokens receive from its tuples.

    The outer system holds the tuples with a draft outside H*, which serve their tokens outside H*; the inner system
    those inside H*.  Tokens are in order of falling q: a truncation T keeps the first of them, and drops every tuple
    with a draft in this system that is not in T.
    """

    name: str
    tokens: IntArray
    """Shape (t,): the tokens of the system that can be drafted and have target mass: no other is ever put out."""
    q: FloatArray
    """Shape (t,): draft probability of each."""
    targets: FloatArray
    """Shape (t,): what each receives: the p_i of [thomas2025global, Theorem 6.1], and p itself in the inner system."""
    rest: float
    """Mass of the other tokens that a tuple of the system may hold: q(H*) for the outer system, and for the inner one
    that of the tokens without target mass, of which the softmax would make little and not nothing."""
    slack: float
    """Weight of serving none of the tokens: 0 for the outer system, 1 for the inner [thomas2025global, eq. (15)]."""
    n: int

    def truncate(self, tau: float) -> tuple[int, float]:
        """Size of the least T that drops tuples of probability at most tau, and that probability, epsilon_T or gamma_T.

        The tokens of largest q make the smallest T, as q(T) decides what is dropped.
        """
        if self.tokens.size == 0:
            return 0, 0.0
        dropped = np.concatenate((np.cumsum(self.q[::-1])[::-1], [0.0]))  # the mass outside the first 0, 1, ... tokens
        all_of_it = self.rest + dropped[0]
        with np.errstate(divide="ignore"):
            # all**n - (all - dropped)**n without the difference
            leak = -(all_of_it**self.n) * np.expm1(self.n * np.log1p(-np.minimum(dropped / all_of_it, 1.0)))
        size = int(np.argmax(leak <= tau))
        return size, float(leak[size])

    def sets(self, size: int) -> tuple[IntArray, FloatArray]:
        """Sets of the first so many tokens and the probability that a tuple's drafts in this system form each.

        These are the coefficients of the grouped convex program [thomas2025global, eq. (117), (119)], in the form of
        `otspec.schemes.iid.iid_sets`, shapes (m, n) and (m,).
        """
        return iid_sets(self.q[:size], self.n, self.set_count(size), self.rest)

    def set_count(self, size: int) -> int:
        """How many sets those are, [thomas2025global, eq. (121)]."""
        return sum(math.comb(size, members) for members in range(1, min(size, self.n) + 1))


@dataclass(frozen=True, eq=False)
class Split:
    """A problem with i.i.d. drafts, cut along H*."""

    problem: Problem
    bound: float
    """alpha* from above."""
    over_drafted: BoolArray
    """Shape (V,): H*."""
    outer: System
    inner: System
    served: FloatArray
    """Shape (V,): what drafts serve of each token; p minus it is the residual."""

    @classmethod
    def of(cls, problem: Problem) -> Split:
        """Find H*, and what drafts serve of the tokens outside."""
        assert isinstance(problem.scheme, IID)
        n, q = problem.n, problem.scheme.q
        best = optimum(problem)
        over_drafted = np.zeros(problem.vocab, dtype=bool)
        over_drafted[best.minimiser] = True
        inside = best.minimiser
        outside = np.flatnonzero(~over_drafted & (q > 0))
        mass = float(q[inside].sum())
        served = np.where(over_drafted, problem.p, 0.0)
        served[outside] = outer_targets(problem.p[outside], q[outside], mass, n)
        outside = outside[np.argsort(-q[outside])]
        unwanted = float(q[inside[problem.p[inside] == 0]].sum())
        inside = inside[problem.p[inside] > 0]
        inside = inside[np.argsort(-q[inside])]
        return cls(
            problem,
            best.bound,
            over_drafted,
            System("outer", outside, q[outside], served[outside], mass, 0.0, n),
            System("inner", inside, q[inside], served[inside], unwanted, 1.0, n),
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


def outer_targets(p: FloatArray, q: FloatArray, mass: float, n: int) -> FloatArray:
    """What drafts serve of tokens outside H*: p_i, p minus the outer residual, in O(m log m).

    [thomas2025global, Theorem 6.2 and Lemma 6.3] has it by cumulative minima of psi along rising q/p.  Here
    their differences are computed from positive terms: each tuple first serves its draft of least q/p, and what
    exceeds that token's p is handed on to tokens of larger q/p.

    Parameters
    ----------
    p, q : ndarray, shape (m,)
        Target and draft law on the tokens outside H* that can be drafted.
    mass : float
        q(H*).
    n : int
        Drafts.

    Returns
    -------
    ndarray, shape (m,)
        What drafts serve of each token, a probability.
    """
    with np.errstate(over="ignore"):
        order = np.argsort(-(p / q))[::-1]  # falling q/p, the way in which the tuples' masses accumulate
    increments = power_increments(np.append(mass, q[order]), n)[1:]
    served = np.empty(p.size)
    served[order] = _waterfall(p[order], increments)
    return served


@jit
def _waterfall(p: FloatArray, income: FloatArray) -> FloatArray:
    """Serve from the last entry to the first: each takes at most p of its income and of what those after it left.

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
    for j in range(p.size - 1, -1, -1):
        served[j] = min(p[j], income[j] + carried)
        carried = max(income[j] + carried - p[j], 0.0)
    return served

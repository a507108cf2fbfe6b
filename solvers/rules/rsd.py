"""`rsd`: recursive rejection sampling for drafts without replacement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from otspec.jit import jit
from otspec.laws import BoolArray, FloatArray, IntArray
from otspec.plans.figures import residual_law
from otspec.problem import Problem
from otspec.schemes import DraftScheme, WithoutReplacement
from otspec.solver import register
from otspec.solvers.rules.base import SequentialRuleSolver


@register("rsd")
@dataclass(frozen=True)
class RSD(SequentialRuleSolver):
    """Recursive rejection sampling without replacement [jeon2024recursive].

    As `rrs`, but draft k is tested against q_k, q on the tokens not drawn before, normalised: accept with probability
    min(1, r_k/q_k), else r_(k+1) is (r_k - q_k)+, normalised.  The residual law never hits a draft.

    Acceptance is an average over the ordered tuples of rejected drafts, of which there are V**(n-1) at most.  With up
    to `max_histories` of them it is exact; beyond, the likeliest tokens are followed, and acceptance is a lower bound,
    close by: see `rejection`.

    Parameters
    ----------
    tol, max_cells, allow_biased
        As for `otspec.solvers.rules.base.SequentialRuleSolver`.
    max_histories : int
        How many tuples of rejected drafts are followed.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.WithoutReplacement([0.2, 0.3, 0.5], n=2))
    >>> plan = otspec.solve(problem, otspec.solvers.RSD()).plan
    >>> print(f"{plan.acceptance:.3f} of at most {plan.bound:.3f}")
    0.820 of at most 0.986
    """

    max_histories: int = 1_000_000

    schemes: ClassVar[str] = "drafts without replacement"
    takes: ClassVar[tuple[type[DraftScheme], ...]] = (WithoutReplacement,)
    reason: ClassVar[str] = (
        "each test takes the draft for a draw from q without the earlier drafts; "
        "pass otspec.WithoutReplacement, choose another solver"
    )

    def __post_init__(self) -> None:
        if self.max_histories < 1:
            raise ValueError(f"max_histories is {self.max_histories}; follow at least one")

    def rule(self, problem: Problem, q: FloatArray) -> ShrinkingTests:
        """The tests, of which nothing is prepared, as they depend on the drafts; q has shape (V,)."""
        return ShrinkingTests(problem.p, q, problem.n, self.max_histories)


@dataclass(frozen=True, eq=False)
class ShrinkingTests:
    """A sequential rule that tests each draft against what is left of q."""

    p: FloatArray
    """Shape (V,): target law."""
    q: FloatArray
    """Shape (V,): the law that drafts are drawn from, one after the other."""
    n: int
    """Number of drafts."""
    max_histories: int
    """As in `RSD`."""

    def tests(self, drafts: IntArray) -> Iterator[tuple[int, float]]:
        """Every draft of a tuple, shape (n,), in turn: its token and the chance to pass, O(V) each."""
        for token, (target, drafted) in zip(drafts.tolist(), self._stages(drafts), strict=False):
            if drafted[token] > target[token]:
                yield token, float(target[token] / drafted[token])
            else:
                yield token, float(target[token] > 0)

    def residual(self, drafts: IntArray) -> FloatArray:
        """r_(n+1), shape (V,): the law of the output after all tests."""
        *_, (target, _) = self._stages(drafts)
        return target

    def _stages(self, drafts: IntArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """r_k and q_k, shape (V,) each, for k = 1 to n + 1, if every draft before k was rejected."""
        target, drafted = self.p, self.q
        yield target, drafted
        for token in drafts:
            target = residual_law(target, drafted)
            drafted = drafted.copy()
            drafted[token] = 0.0
            left = drafted.sum()
            if left > 0:
                drafted /= left
            yield target, drafted

    @cached_property
    def acceptance(self) -> float:
        """P(a draft passes its test); from below where not every history is followed."""
        return 1.0 - rejection(self.p, self.q, self.n, self.max_histories)

    @property
    def membership(self) -> float:
        """P(the output is one of the drafts), as `acceptance` has it: what failed has no mass in the residual law."""
        return self.acceptance

    def output_law(self) -> FloatArray:
        """Exact law of the output, shape (V,).

        The first test puts out min(p, q), and every rejection leaves the law r_2 to be put out by the rest.  The rest
        does so by the same identity, whatever was drawn: min(r_k, q_k) + (r_k - q_k)+ is r_k.
        """
        rejected = np.maximum(self.q - self.p, 0.0).sum()
        return np.minimum(self.p, self.q) + rejected * residual_law(self.p, self.q)


def rejection(p: FloatArray, q: FloatArray, n: int, max_histories: int) -> float:
    """P(all n drafts without replacement are rejected), exactly or from above.

    Draft k is tested against the law r_k = (p - c_k q)+ / T(c_k), where T(c) is the sum of (p - c q)+, c_1 is 0, and
    c_(k+1) is c_k + T(c_k) / (1 - q(x_1) - .. - q(x_(k-1))): the drafts rejected before enter through their mass only.
    Draft k is rejected with probability T(c_(k+1)) / T(c_k).  With the tokens sorted by p/q, T costs a binary search.

    Where there are more than `max_histories` tuples of n - 1 tokens, only those of the likeliest tokens are followed.
    After the rejection of any other token, nothing that is drawn from there on is counted as mass drawn.  That makes
    every later c too small, hence every later rejection too likely: T falls with c, and c_(k+1) grows with c_k, since
    the tokens with p > c q were never drawn, so that T falls with slope at most the mass undrawn.

    Parameters
    ----------
    p, q : ndarray, shape (V,)
        Target and draft law.
    n : int
        Number of drafts.
    max_histories : int
        Tuples of rejected drafts that are followed.
    """
    q = q * 2.0**100  # which only divides every c by as much: as it is, one over a subnormal overflows
    reachable = np.flatnonzero(q)
    ratio = p[reachable] / q[reachable]
    ascending = np.argsort(ratio)
    tokens = reachable[ascending]
    never = p[q == 0].sum()
    target_above = np.concatenate((np.cumsum(p[tokens][::-1])[::-1], [0.0])) + never
    draft_above = np.concatenate((np.cumsum(q[tokens][::-1])[::-1], [0.0]))
    followed = tokens
    if n > 1 and tokens.size ** (n - 1) > max_histories:
        count = int(max_histories ** (1 / (n - 1)))
        followed = tokens[np.argpartition(-q[tokens], count)[:count]]
    beside = np.ones(q.size, dtype=bool)
    beside[followed] = False
    return float(
        _rejection(ratio[ascending], target_above, draft_above, p[followed], q[followed], float(q[beside].sum()), n)
    )


@jit
def _missing(c: float, ratio: FloatArray, target_above: FloatArray, draft_above: FloatArray) -> float:
    """T(c), the sum of (p - c q)+.

    Parameters
    ----------
    c : float
    ratio : ndarray, shape (k,)
        p/q of the tokens that can be drafted, ascending.
    target_above, draft_above : ndarray, shape (k + 1,)
        Sums of p and q over the tokens from each one of that order on, and p of all that cannot be drafted.
    """
    above = np.searchsorted(ratio, c, side="right")
    if draft_above[above] == 0.0:
        return target_above[above]
    return max(target_above[above] - c * draft_above[above], 0.0)


@jit
def _rejection(
    ratio: FloatArray,
    target_above: FloatArray,
    draft_above: FloatArray,
    p: FloatArray,
    q: FloatArray,
    beside: float,
    n: int,
) -> float:
    """Depth first through the histories.

    Parameters
    ----------
    ratio : ndarray, shape (k,)
    target_above, draft_above : ndarray, shape (k + 1,)
        As in `_missing`.
    p, q : ndarray, shape (f,)
        Of the tokens that are followed.
    beside : float
        q of all others together.
    n : int
        Number of drafts.

    Returns
    -------
    float
        P(all drafts are rejected), exactly or from above.
    """
    k = q.size
    total = 0.0
    taken: BoolArray = np.zeros(k, dtype=np.bool_)
    left = np.empty((n, k))  # mass undrawn, by the token drawn next
    cursor = np.zeros(n, dtype=np.int64)
    weight, c, t, next_c, next_t, share = np.empty((6, n))
    explained = np.zeros(n)
    weight[0], c[0], t[0] = 1.0, 0.0, target_above[0]
    undrawn = np.empty(n)
    undrawn[0] = draft_above[0]
    depth = 0
    entered = True
    while depth >= 0:
        if entered:
            share[depth] = 1.0 / undrawn[depth]
            next_c[depth] = c[depth] + t[depth] * share[depth]
            next_t[depth] = _missing(next_c[depth], ratio, target_above, draft_above)
            cursor[depth] = 0
            explained[depth] = 0.0
            if depth == n - 1 or next_t[depth] <= 0.0:
                total += weight[depth] * min(next_t[depth] / t[depth], 1.0)
                cursor[depth] = k + 1
            else:
                below = beside
                for i in range(k):
                    left[depth, i] = below
                    if not taken[i]:
                        below += q[i]
                above = 0.0
                for i in range(k - 1, -1, -1):
                    left[depth, i] += above
                    if not taken[i]:
                        above += q[i]
            entered = False
        if cursor[depth] < k:
            i = cursor[depth]
            cursor[depth] += 1
            if taken[i]:
                continue
            rejected = share[depth] * q[i] - max(p[i] - c[depth] * q[i], 0.0) / t[depth]
            if rejected <= 0.0:
                continue
            explained[depth] += rejected
            taken[i] = True
            weight[depth + 1] = weight[depth] * rejected
            c[depth + 1], t[depth + 1] = next_c[depth], next_t[depth]
            undrawn[depth + 1] = left[depth, i]
            depth += 1
            entered = True
            continue
        if cursor[depth] == k and beside > 0.0:
            others = max(next_t[depth] / t[depth] - explained[depth], 0.0)
            far = next_c[depth]
            for _ in range(n - 1 - depth):
                far += _missing(far, ratio, target_above, draft_above) * share[depth]
            total += weight[depth] * others * _missing(far, ratio, target_above, draft_above) / next_t[depth]
        depth -= 1
        if depth >= 0:
            taken[cursor[depth] - 1] = False
    return total

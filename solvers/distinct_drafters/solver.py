"""`distinct_drafters`: one weight per token, odds in proportion; drafts from distinct laws, and no sum over tuples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from otspec.certificate import best_prefix
from otspec.laws import IntArray
from otspec.plans import Pick
from otspec.problem import Problem
from otspec.schemes import IID, DraftScheme, Independent
from otspec.solver import Solution, most_gap, register
from otspec.solvers.base import SolverBase
from otspec.solvers.distinct_drafters.rule import LuceRule, improve, laws_and_counts
from otspec.tolerances import TOL

COARSE, EXACTING = (1, 10), (2, 20)
"""Steps per octave and octaves of the quadrature: g to 1e-5 far from the optimum, then to 1e-11."""

ROUND = 10
"""Iterations between two certificates."""


@register("distinct_drafters")
@dataclass(frozen=True)
class DistinctDrafters(SolverBase):
    """Luce's choice rule, a softmax, without truncation: one weight per token, for drafts from one law or many.

    The pick is drawn with odds in proportion to one weight per token, as in the systems of [thomas2025global, section
    6]; but both systems are solved at once, in a box of log weights, and by a quadrature in place of sums over tuples.
    Every plan is lossless up to rounding, and its gap certified.  See `docs/distinct_drafters.md`.

    Parameters
    ----------
    tol : float
        Largest gap and deviation, both probabilities, of a plan that counts as optimal; the iteration stops there.
        1e-6 takes a third of the time.
    max_iterations : int
        Past this many the plan so far is returned, FEASIBLE if its gap exceeds tol.
    height : float
        Largest log weight in absolute value.  Tight sets would need infinite ratios; exp(2 height) stands for them.

    Raises
    ------
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.Independent([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]]))
    >>> plan = otspec.solve(problem, otspec.solvers.DistinctDrafters(tol=1e-6)).plan
    >>> plan.gap <= 1e-6, plan.deviation < 1e-9
    (True, True)
    """

    tol: float = TOL
    max_iterations: int = 500
    height: float = 40.0

    schemes: ClassVar[str] = "independent drafts"
    takes: ClassVar[tuple[type[DraftScheme], ...]] = (IID, Independent)
    drawn_by: ClassVar[str] = "otspec.IID, otspec.Independent"

    def __post_init__(self) -> None:
        if self.max_iterations < 1:
            raise ValueError(f"max_iterations = {self.max_iterations} leaves nothing to do; take 1 or more")
        if not 0 < self.height <= 300:
            raise ValueError(f"height = {self.height:g} is not a usable bound on log weights; take one in (0, 300]")

    def __call__(self, problem: Problem) -> Solution:
        """Alternate rounds of improvement with certificates, until one of them is good enough."""
        assert isinstance(problem.scheme, IID | Independent)
        reached = problem.scheme.reachable()
        laws, counts = laws_and_counts(problem.scheme)
        laws, p = np.ascontiguousarray(laws[:, reached]), problem.p[reached]
        with np.errstate(divide="ignore"):
            level = np.clip(np.log(p) - np.log(laws.max(axis=0)), -self.height, self.height)
        unclipped = level.copy()
        iterations, bound = 0, 1.0
        while True:
            todo = min(ROUND, self.max_iterations - iterations)
            improve(p, laws, counts, self.height, *(EXACTING if iterations else COARSE), todo, level, unclipped)
            iterations += todo
            odds = np.zeros(problem.vocab)
            odds[reached] = np.exp(level - level.max())
            plan = Pick(problem, LuceRule(problem.scheme, odds), 1.0)
            bound = min(bound, _bound_along(problem, reached[np.argsort(-unclipped, kind="stable")]))
            if bound - plan.acceptance <= 0.9 * most_gap(bound, self.tol) or iterations == self.max_iterations:
                sizes = {"tokens": reached.size, "iterations": iterations}
                return Solution(Pick(problem, plan.rule, bound), sizes)


def _bound_along(problem: Problem, order: IntArray) -> float:
    """Upper bound on the acceptance of every rule by the prefixes of an order of the reachable tokens, shape (k,)."""
    unreached = np.ones(problem.vocab, dtype=bool)
    unreached[order] = False
    hits = problem.scheme.hit_chain(np.concatenate((np.flatnonzero(unreached), order)))[-order.size - 1 :]
    return best_prefix(hits, problem.p[order])

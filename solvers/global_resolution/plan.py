"""The plan of `global_resolution`: a softmax over the drafts, inside H* with a chance to reject them all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import ArrayLike, FloatArray, IntArray
from otspec.plans.figures import Figures
from otspec.problem import Problem
from otspec.solvers.global_resolution.softmax import value_and_rows
from otspec.solvers.global_resolution.systems import Split, System


@dataclass(frozen=True, eq=False)
class Solved:
    """A system with its softmax variables."""

    system: System
    variables: int
    """|T|, the number of tokens with a variable."""
    alpha: FloatArray
    """Shape (t,): one variable per token of the system, 0 beyond the first |T|."""
    leak: float
    """Probability of the tuples that T drops: epsilon_T or gamma_T."""
    slope: float
    """1-norm of the truncated function's gradient."""
    iterations: int

    def conditional(self, drafts: IntArray, residual: FloatArray) -> FloatArray:
        """Law of the output given a tuple of drafts of this system: shape (n,) to (V,)."""
        drafted = np.isin(self.system.tokens, drafts)
        weights = np.exp(self.alpha[drafted])
        total = self.system.slack + weights.sum()
        law = residual * (self.system.slack / total)
        law[self.system.tokens[drafted]] += weights / total
        return law

    def rows(self, size: int) -> FloatArray:
        """What each of the first `size` tokens receives from the tuples without later ones."""
        return value_and_rows(*self.system.sets(size), self.system.slack, self.alpha[:size])[1]


@dataclass(frozen=True, eq=False, repr=False)
class Resolution(Figures):
    """Verification by two softmax rules [thomas2025global, eq. (14), (17), (18)].

    Its output law is close to p, not p: `deviation` is how close.  Up to `max_sets` draft sets the figures are
    exact; beyond, `deviation` is the certified bound `max_deviation`, `acceptance` a certified lower bound, and there
    is no output law.
    """

    problem: Problem
    bound: float
    split: Split
    outer: Solved
    inner: Solved
    max_sets: int

    @property
    def max_deviation(self) -> float:
        """The largest deviation that gradients and truncations allow, in docs/global_resolution.md.

        [thomas2025global, Theorems 6.4, 6.5 and Lemma 6.6] have 3 and 6 leaks in place of 2 and 2.
        """
        return self.outer.slope + 2 * self.outer.leak + 2 * (self.inner.slope + self.inner.leak)

    @cached_property
    def deviation(self) -> float:
        """L1 distance of the output law to p: exact if the draft sets can be listed, else at most this."""
        if not self._listable:
            return self.max_deviation
        return float(np.abs(self.output_law() - self.problem.p).sum())

    @cached_property
    def acceptance(self) -> float:
        """P(the output is a draft): exact if the draft sets can be listed, else at least this."""
        size = self.inner.alpha.size if self._listable else self.inner.variables
        return float(self.outer.system.leaks[0] + self.inner.rows(size).sum())  # no outer tuple is rejected

    def conditional(self, drafts: ArrayLike) -> FloatArray:
        """Law of the output given the drafts: shape (n,) to (V,).

        Raises
        ------
        ProblemError
            If the drafts are not a tuple of the scheme, or have probability 0 under it.
        """
        drafts = self.problem.check_drafts(drafts)
        solved = self.inner if self.split.system_of(drafts) is self.inner.system else self.outer
        return solved.conditional(drafts, self.split.residual)

    def output_law(self) -> FloatArray:
        """Exact law of the output over drafts and the rule's own randomness, shape (V,).

        Raises
        ------
        ProblemError
            If there are more than `max_sets` draft sets.
        """
        if not self._listable:
            raise ProblemError(
                f"{self._set_count:,} draft sets exceed max_sets = {self.max_sets:,}; truncate the drafts, raise "
                "max_sets, or be content with max_deviation"
            )
        law = np.zeros(self.problem.vocab)
        for solved in (self.outer, self.inner):
            law[solved.system.tokens] = solved.rows(solved.alpha.size)
        return law + (1.0 - law.sum()) * self.split.residual

    @property
    def _set_count(self) -> int:
        return sum(solved.system.set_count(solved.alpha.size) for solved in (self.outer, self.inner))

    @property
    def _listable(self) -> bool:
        return self._set_count <= self.max_sets

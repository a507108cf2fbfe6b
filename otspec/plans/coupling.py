"""A plan as a table: how much of each draft set's probability goes to each token."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from otspec.errors import ProblemError
from otspec.laws import ArrayLike, FloatArray, IntArray, as_tuple, sum_by
from otspec.plans.figures import Figures, residual_law
from otspec.problem import Problem
from otspec.schemes import DraftSets


@dataclass(frozen=True, eq=False, repr=False)
class Coupling(Figures):
    """Transport between draft sets and tokens, completed by the residual law [thomas2025global, eq. (3)].

    What `values` leaves of a set's probability is distributed in proportion to what `values` leaves of p.  If no row
    carries more than the set's mass and no column more than p, the output law is p, whatever the values: a solver that
    stops short of its optimum, or rounds, loses acceptance, but the output law stays p.  `Coupling.fit` ensures it.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> plan = otspec.solve(problem, "max_flow").plan
    >>> print(f"{type(plan).__name__}: {plan.values.sum():.3f} = {plan.acceptance:.3f}")  # what the table accepts
    Coupling: 0.860 = 0.860
    """

    problem: Problem
    sets: DraftSets
    indptr: IntArray
    """Shape (m + 1,): the entries of set s are indptr[s] to indptr[s + 1]."""
    columns: IntArray
    """Shape (entries,): token of each."""
    values: FloatArray
    """Shape (entries,): probability that the drafts form the set and the entry's token is put out by the table."""
    bound: float

    @classmethod
    def fit(cls, problem: Problem, sets: DraftSets, accepted: FloatArray, bound: float) -> Coupling:
        """A plan from values per cell, shape (cells,), as the relaxed program has them [thomas2025global, eq. (2)]."""
        return cls.fit_table(problem, sets, sets.indptr, sets.cells, accepted, bound)

    @classmethod
    def fit_table(
        cls, problem: Problem, sets: DraftSets, indptr: IntArray, columns: IntArray, values: FloatArray, bound: float
    ) -> Coupling:
        """A plan from values per (set, token), clipped at 0 and scaled down until no row or column is overfull.

        Solvers meet their constraints to a tolerance; what is cut here is of that size, and goes to the residual law.

        Parameters
        ----------
        problem : Problem
        sets : DraftSets
            m of them.
        indptr : ndarray of int, shape (m + 1,)
        columns : ndarray of int, shape (entries,)
        values : ndarray, shape (entries,)
            As the fields of a `Coupling`.
        bound : float
            Certified upper bound on the acceptance of every rule.
        """
        values = np.maximum(values, 0.0)
        if values.shape != columns.shape:
            raise ProblemError(f"the table has values of shape {values.shape}; pass one per cell, {columns.shape}")
        served = sum_by(columns, values, problem.vocab)
        values *= _shrink(problem.p, served)[columns]
        values *= np.repeat(_shrink(sets.mass, np.add.reduceat(values, indptr[:-1])), np.diff(indptr))
        return cls(problem, sets, indptr, columns, values, bound)

    @cached_property
    def _served(self) -> FloatArray:
        return sum_by(self.columns, self.values, self.problem.vocab)

    @cached_property
    def _unused(self) -> FloatArray:
        return np.maximum(self.sets.mass - np.add.reduceat(self.values, self.indptr[:-1]), 0.0)

    @cached_property
    def residual(self) -> FloatArray:
        """Law, shape (V,), of the output when the table puts out nothing."""
        return residual_law(self.problem.p, self._served)

    @cached_property
    def acceptance(self) -> float:
        """P(the output is one of the drafts), residual hits included."""
        hits = np.add.reduceat(self.residual[self.sets.cells], self.sets.indptr[:-1])
        return float(self.accepted.sum() + self._unused @ hits)

    @cached_property
    def accepted(self) -> FloatArray:
        """The values on the cells of `sets`, shape (cells,), where a draft is put out [thomas2025global, eq. (2)]."""
        if np.array_equal(self.columns, self.sets.cells):
            return self.values
        entries = np.repeat(np.arange(len(self.sets)), np.diff(self.indptr)) * self.problem.vocab + self.columns
        cells = self.sets.owner * self.problem.vocab + self.sets.cells
        accepted = np.zeros(cells.size)
        present = np.isin(cells, entries)
        accepted[present] = self.values[np.searchsorted(entries, cells[present])]
        return accepted

    def conditional(self, drafts: ArrayLike) -> FloatArray:
        """Exact law of the output given the drafts: shape (n,) to (V,).

        Raises
        ------
        ProblemError
            If the drafts are not a tuple of the scheme, or have probability 0 under it.
        """
        row = self.sets.find(as_tuple(drafts, self.problem.n, self.problem.vocab))
        entries = slice(self.indptr[row], self.indptr[row + 1])
        law = self.residual * (self._unused[row] / self.sets.mass[row])
        law[self.columns[entries]] += self.values[entries] / self.sets.mass[row]
        return law

    def output_law(self) -> FloatArray:
        """Exact law of the output over drafts and the rule's own randomness, shape (V,)."""
        return self._served + self._unused.sum() * self.residual


def _shrink(capacity: FloatArray, load: FloatArray) -> FloatArray:
    """Factors <= 1 that bring each load down to its capacity."""
    over = load > capacity
    return np.divide(capacity, load, out=np.ones_like(load), where=over)

"""The transport programs with a row per tuple of drafts, as they are printed, and the way back to sets of tokens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from otspec.laws import FloatArray, IntArray, sum_by
from otspec.problem import Problem
from otspec.schemes import DraftSets


class Tuples(NamedTuple):
    """Tuples of drafts as rows of a program, sorted by the set of distinct tokens that they form."""

    rows: DraftSets
    """A row for every tuple: those that form one set are neighbours."""
    sets: DraftSets
    first: IntArray
    """Shape (sets,): the first row of each set."""

    @classmethod
    def of(cls, problem: Problem) -> Tuples:
        """All tuples that can occur."""
        drafts, mass = problem.scheme.support()
        sets = DraftSets.of_support(drafts, mass)
        group = np.array([sets.find(one) for one in drafts])
        order = np.argsort(group, kind="stable")
        return cls(
            DraftSets(sets.tokens[group[order]], mass[order]), sets, np.flatnonzero(np.diff(group[order], prepend=-1))
        )

    def by_set(self, values: FloatArray) -> FloatArray:
        """Sums over the tuples of each set, shape (sets, V), of values by tuple and token, shape (tuples, V)."""
        return np.add.reduceat(values, self.first, axis=0)

    def cells_by_set(self, values: FloatArray) -> FloatArray:
        """Sums over the tuples of each set, shape (cells of the sets,), of values by cell of the rows."""
        rows, sets = self.rows, self.sets
        group = np.repeat(np.arange(len(sets)), np.diff(np.append(self.first, len(rows))))
        place = np.arange(values.size) - rows.indptr[rows.owner]
        return sum_by(sets.indptr[group[rows.owner]] + place, values, sets.cells.size)

"""`slackness`: two smaller flow problems in place of one, and only one of them per drafted tuple."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from otspec.certificate import Optimum, cells_at_most, optimum
from otspec.kernels.max_flow import Network
from otspec.laws import ArrayLike, BoolArray, FloatArray, IntArray, as_tuple, sum_by
from otspec.plans import Coupling
from otspec.plans.figures import residual_law
from otspec.problem import Problem
from otspec.schemes import DraftSets
from otspec.solver import Solution, register
from otspec.solvers.base import refuse_above
from otspec.solvers.max_flow.engines import ENGINES, FlowSolver


@register("slackness")
@dataclass(frozen=True)
class Slackness(FlowSolver):
    """Complementary slackness: outer and inner system apart [thomas2025global, section 5.3, Theorem 5.1].

    H* splits the network: tuples with a draft outside H* serve only tokens outside H* (the *outer* system), tuples
    inside H* serve only tokens of H* (the *inner* system).  The published method reads the outer residuals, which the
    completion of every inner tuple needs, off the outer solution.  Here they come from the certificate: p - g outside
    H*, for the proposal g of `otspec.optimum`, is feasible because the tokens outside H* are tight for g.  So each
    tuple needs only one system, for any draft scheme.

    For i.i.d. drafts the certificate costs a sort, and for two drafts from laws of their own a minimum cut among the
    tokens [thomas2025global, Appendix D].  For three such laws, and for tables, it is the maximum flow itself.

    The settings are those of `otspec.solvers.max_flow.engines.FlowSolver`; max_cells limits both systems together.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> law = otspec.solvers.Slackness().conditional(problem, [0, 2])  # solves the one system that this pair needs
    >>> print(law.round(3))
    [1. 0. 0.]
    """

    def __call__(self, problem: Problem) -> Solution:
        """Solve both systems and join them."""
        refuse_above(self.max_cells, cells_at_most(problem), "network edges")
        split = _Split.of(problem, self.max_cells)
        accepted = np.zeros(split.sets.cells.size)
        for system in (split.outer, split.inner):
            accepted[system] = self._solve(split, system)
        plan = Coupling.fit(problem, split.sets, accepted, split.best.bound)
        sizes = {"sets": len(split.sets), "outer_cells": int(split.outer.sum()), "inner_cells": int(split.inner.sum())}
        return Solution(plan, sizes)

    def conditional(self, problem: Problem, drafts: ArrayLike) -> FloatArray:
        """Law of the output given one tuple of drafts, by the one system that it needs [thomas2025global, eq. (8)].

        Parameters
        ----------
        problem : Problem
        drafts : array_like of int, shape (n,)

        Returns
        -------
        ndarray, shape (V,)
            The same law as the full plan's `conditional`.

        Raises
        ------
        ProblemError
            If the drafts are not a tuple of the scheme, or have probability 0 under it.
        Stopped
            If the network exceeds max_cells.
        """
        refuse_above(self.max_cells, cells_at_most(problem), "network edges")
        split = _Split.of(problem, self.max_cells)
        row = split.sets.find(as_tuple(drafts, problem.n, problem.vocab))
        system = split.inner if split.inside[row] else split.outer
        accepted = np.zeros(split.sets.cells.size)
        accepted[system] = self._solve(split, system)
        cells = slice(split.sets.indptr[row], split.sets.indptr[row + 1])
        law = np.zeros(problem.vocab)
        law[split.sets.cells[cells]] = accepted[cells] / split.sets.mass[row]
        law += max(1.0 - law.sum(), 0.0) * residual_law(problem.p, split.served)
        return law

    def _solve(self, split: _Split, system: BoolArray) -> FloatArray:
        """Flow on the cells of one system; engines in floating point may round below 0.

        A set with one cell in the system can serve nothing else, so these cells come first, without a flow.  In the
        outer system they are most of all: every pair of a token of H* with one outside.
        """
        sets = split.sets
        cells, owner = sets.cells[system], sets.owner[system]
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        sizes = np.diff(starts, append=owner.size)
        alone = np.repeat(sizes == 1, sizes)
        left = split.served.copy()
        flow = np.zeros(cells.size)
        demanded = sum_by(cells[alone], sets.mass[owner[alone]], left.size)
        allocated = np.minimum(demanded, left)
        share = np.divide(allocated, demanded, out=np.zeros_like(left), where=demanded > 0)
        flow[alone] = sets.mass[owner[alone]] * share[cells[alone]]
        left -= allocated
        tokens, index = _number(cells[~alone], left.size)
        indptr = np.concatenate(([0], np.cumsum(sizes[sizes > 1])))
        network = Network(left[tokens], sets.mass[owner[starts[sizes > 1]]], indptr, index)
        flow[~alone] = ENGINES[self.engine](network)
        return np.maximum(flow, 0.0)


def _number(cells: IntArray, vocab: int) -> tuple[IntArray, IntArray]:
    """The distinct tokens of some cells, ascending, and the number of each cell's token among them."""
    met = np.zeros(vocab, dtype=bool)
    met[cells] = True
    return np.flatnonzero(met), (np.cumsum(met) - 1)[cells]


@dataclass(frozen=True, eq=False)
class _Split:
    """The network of a problem, cut along H*."""

    best: Optimum
    sets: DraftSets
    served: FloatArray
    """Shape (V,): what drafts serve of each token, min(p, g): p on H*, p minus the outer residual outside."""
    inside: BoolArray
    """Shape (m,): whether the set lies in H*."""
    outer: BoolArray
    """Shape (cells,): those of the outer system, tokens outside H*, which only sets not inside H* contain."""
    inner: BoolArray
    """Shape (cells,): those of the inner system, of the sets inside H*."""

    @classmethod
    def of(cls, problem: Problem, max_cells: int) -> _Split:
        best = optimum(problem, max_cells)
        sets = problem.scheme.draft_sets()
        over_drafted = np.zeros(problem.vocab, dtype=bool)
        over_drafted[best.minimiser] = True
        cell_in = over_drafted[sets.cells]
        inside = np.logical_and.reduceat(cell_in, sets.indptr[:-1])
        return cls(best, sets, np.minimum(problem.p, best.proposal), inside, ~cell_in, inside[sets.owner])

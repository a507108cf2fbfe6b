"""`lp`: the transport program as published, solved by HiGHS or by the network simplex of POT."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from otspec.certificate import MAX_CELLS, cells_at_most, optimum
from otspec.extras import require
from otspec.laws import FloatArray, IntArray
from otspec.plans import Coupling
from otspec.problem import Problem
from otspec.results import Status
from otspec.schemes import DraftSets
from otspec.solver import Solution, Stopped, register
from otspec.solvers.base import SolverBase, refuse_above
from otspec.solvers.tuples import Tuples
from otspec.tolerances import TOL

PACKAGES: dict[str, tuple[str, ...]] = {"highs": ("highspy",), "pot": ("ot",)}
"""Engines, and the packages that they need."""

STEPS = 10_000_000
"""Steps of POT's network simplex: minutes."""

SCALE = 2.0**20
"""Probabilities are multiplied by this before HiGHS sees them: its tolerances are absolute, at least 1e-10."""


@register("lp")
@dataclass(frozen=True)
class LP(SolverBase):
    """The optimal transport linear program, by HiGHS or POT [sun2023spectr; thomas2025global, eq. (1)-(3)].

    The full form is feasible for any two marginals of equal total, but HiGHS may call it infeasible: its presolve takes
    a set of probability 1e-13 for one of 0, as its tolerances allow, and then a total is off by the sum of what it
    dropped.  Such a program is solved again without presolve, to the same tolerances.

    Parameters
    ----------
    form : str
        ``relaxed``: eq. (2), one variable per draft set and token of it, sums at most p and the set's mass, completed
        by the residual law of eq. (3).  ``full``: eq. (1), one variable per draft set and token of the vocabulary,
        sums equal to both marginals.  ``tuples``: eq. (1) as printed, one variable per tuple of drafts, in their order,
        and token of the vocabulary; the plan sums up the tuples of each set.
    engine : str
        ``highs``, or ``pot``: `ot.emd` of Python Optimal Transport, a network simplex on the table of costs.  It solves
        the full program in every form; of a relaxed one the plan has the values on the tokens of each set.
    tol : float
        Largest gap and deviation, both probabilities, of a plan that counts as optimal.
    max_cells : int
        Largest number of variables.
    time_limit_s : float
        Limit for HiGHS, at which the solve ends with status LIMIT.  POT has a limit of steps in its place, `STEPS`.

    Examples
    --------
    >>> import otspec
    >>> problem = otspec.Problem([0.5, 0.3, 0.2], otspec.IID([0.2, 0.3, 0.5], n=2))
    >>> for form in "relaxed", "full":
    ...     plan = otspec.solve(problem, otspec.solvers.LP(form=form)).plan
    ...     print(f"{form}: {plan.acceptance:.3f}")
    relaxed: 0.860
    full: 0.860
    """

    form: str = "relaxed"
    engine: str = "highs"
    tol: float = TOL
    max_cells: int = 100_000
    time_limit_s: float = 600.0

    schemes: ClassVar[str] = "any whose draft sets can be listed"
    variants: ClassVar[tuple[str, ...]] = ("lp:form=full", "lp:engine=pot")

    def __post_init__(self) -> None:
        if self.form not in ("relaxed", "full", "tuples"):
            raise ValueError(f"no form {self.form!r} of the program; known: relaxed, full, tuples")
        if self.engine not in PACKAGES:
            raise ValueError(f"no engine {self.engine!r} of the program; known: {', '.join(PACKAGES)}")

    @property
    def packages(self) -> tuple[str, ...]:
        """Optional packages that the engine needs."""
        return PACKAGES[self.engine]

    def __call__(self, problem: Problem) -> Solution:
        """Build and solve the program; the plan is its primal solution."""
        scheme, vocab = problem.scheme, problem.vocab
        rows_at_most = scheme.support_size() if self.form == "tuples" else scheme.set_count()
        whole = self.form != "relaxed" or self.engine == "pot"
        refuse_above(self.max_cells, vocab * rows_at_most if whole else cells_at_most(problem), "variables")
        tuples = Tuples.of(problem) if self.form == "tuples" else None
        sets = tuples.sets if tuples else scheme.draft_sets()
        rows = tuples.rows if tuples else sets
        bound = optimum(problem, max(self.max_cells, MAX_CELLS)).bound
        if whole:
            values = self._whole(problem, rows)
            sizes = {"sets": len(rows), "cells": values.size}
            if tuples:
                values = tuples.by_set(values)
            if self.form == "relaxed":
                return Solution(Coupling.fit(problem, sets, values[sets.owner, sets.cells], bound), sizes)
            indptr, columns = np.arange(len(sets) + 1) * vocab, np.tile(np.arange(vocab), len(sets))
            return Solution(Coupling.fit_table(problem, sets, indptr, columns, values.reshape(-1), bound), sizes)
        values = self._solve(problem, sets, sets.owner, sets.cells, np.ones(sets.cells.size), equality=False)
        return Solution(Coupling.fit(problem, sets, values, bound), {"sets": len(sets), "cells": values.size})

    def _whole(self, problem: Problem, rows: DraftSets) -> FloatArray:
        """The full program: values by row and token, shape (rows, V)."""
        vocab = problem.vocab
        accepts = np.zeros((len(rows), vocab))
        accepts[rows.owner, rows.cells] = 1.0
        if self.engine == "pot":
            return network_simplex(rows.mass, problem.p, 1.0 - accepts)
        owner, columns = np.divmod(np.arange(accepts.size), vocab)
        return self._solve(problem, rows, owner, columns, accepts.reshape(-1), equality=True).reshape(accepts.shape)

    def _solve(
        self, problem: Problem, sets: DraftSets, owner: IntArray, columns: IntArray, accepts: FloatArray, equality: bool
    ) -> FloatArray:
        """Maximise accepts @ x over x >= 0 with row sums at most (or equal to) the masses, column sums p."""
        highspy: Any = require("highspy")
        tokens, token = np.unique(columns, return_inverse=True)
        limits = np.concatenate((problem.p[tokens], sets.mass)) * SCALE
        model = highspy.HighsLp()
        model.num_col_ = columns.size
        model.num_row_ = limits.size
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_ = accepts
        model.col_lower_ = np.zeros(columns.size)
        model.col_upper_ = np.full(columns.size, np.inf)
        model.row_lower_ = limits if equality else np.full(limits.size, -np.inf)
        model.row_upper_ = limits
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_ = 2 * np.arange(columns.size + 1)
        model.a_matrix_.index_ = np.column_stack((token, tokens.size + owner)).reshape(-1)
        model.a_matrix_.value_ = np.ones(2 * columns.size)
        highs = highspy.Highs()
        highs.resetGlobalScheduler(True)  # the process has one: begun by others with more threads, it would refuse ours
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("time_limit", self.time_limit_s)
        highs.passModel(model)
        highs.run()
        if highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible:  # presolve's rounding: see the class
            highs.setOptionValue("presolve", "off")
            highs.clearSolver()
            highs.run()
        status = highs.getModelStatus()
        if status == highspy.HighsModelStatus.kTimeLimit:
            raise Stopped(Status.LIMIT, f"HiGHS reached time_limit_s = {self.time_limit_s:g}")
        if status != highspy.HighsModelStatus.kOptimal:
            raise Stopped(Status.NUMERICAL, f"HiGHS ended with {highs.modelStatusToString(status)}")
        return np.array(highs.getSolution().col_value) / SCALE


def network_simplex(supply: FloatArray, demand: FloatArray, costs: FloatArray) -> FloatArray:
    """Transport of least cost by POT's network simplex.

    POT stops at costs that agree to some 1e-15 of the largest, and never rounds masses, so tails are transported as
    they are; totals that differ by rounding are brought to agree by scaling `demand`.

    Parameters
    ----------
    supply, demand : ndarray, shapes (m,) and (V,)
        Masses of equal total.
    costs : ndarray, shape (m, V)

    Returns
    -------
    ndarray, shape (m, V)

    Raises
    ------
    Stopped
        If POT reaches `STEPS`, or warns of anything else.
    """
    pot: Any = require("ot")
    with warnings.catch_warnings():  # what it warns of is in `found`
        warnings.simplefilter("ignore")
        values, found = pot.emd(supply, demand * (supply.sum() / demand.sum()), costs, numItermax=STEPS, log=True)
    if found["warning"] is not None:
        raise Stopped(Status.LIMIT, f"POT stopped: {found['warning']}; truncate the drafts, or take max_flow")
    return values

"""`lp`: the transport program as published, solved by HiGHS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from otspec.certificate import cells_at_most, optimum
from otspec.extras import require
from otspec.laws import FloatArray, IntArray
from otspec.plans import Coupling
from otspec.problem import Problem
from otspec.results import Status
from otspec.schemes import DraftSets
from otspec.solver import Solution, Stopped, register
from otspec.solvers.base import SolverBase, refuse_above
from otspec.tolerances import TOL

SCALE = 2.0**20
"""Probabilities are multiplied by this before HiGHS sees them: its tolerances are absolute, at least 1e-10."""


@register("lp")
@dataclass(frozen=True)
class LP(SolverBase):
    """The optimal transport linear program, by HiGHS [sun2023spectr; thomas2025global, eq. (1)-(3)].

    The full form is feasible for any two marginals of equal total, but HiGHS may call it infeasible: its presolve takes
    a set of probability 1e-13 for one of 0, as its tolerances allow, and then a total is off by the sum of what it
    dropped.  Such a program is solved again without presolve, to the same tolerances.

    Parameters
    ----------
    form : str
        ``relaxed``: eq. (2), one variable per draft set and token of it, sums at most p and the set's mass, completed
        by the residual law of eq. (3).  ``full``: eq. (1), one variable per draft set and token of the vocabulary,
        sums equal to both marginals.
    tol : float
        Largest gap and deviation, both probabilities, of a plan that counts as optimal.
    max_cells : int
        Largest number of variables.
    time_limit_s : float
        Handed to HiGHS; the solve then ends with status LIMIT.

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
    tol: float = TOL
    max_cells: int = 100_000
    time_limit_s: float = 600.0

    schemes: ClassVar[str] = "any whose draft sets can be listed"
    variants: ClassVar[tuple[str, ...]] = ("lp:form=full",)

    def __post_init__(self) -> None:
        if self.form not in ("relaxed", "full"):
            raise ValueError(f"no form {self.form!r} of the program; known: relaxed, full")

    @property
    def packages(self) -> tuple[str, ...]:
        """Optional packages that the solver needs."""
        return ("highspy",)

    def __call__(self, problem: Problem) -> Solution:
        """Build and solve the program; the plan is its primal solution."""
        full = self.form == "full"
        needed = problem.vocab * problem.scheme.set_count() if full else cells_at_most(problem)
        refuse_above(self.max_cells, needed, "variables")
        sets = problem.scheme.draft_sets()
        bound = optimum(problem, self.max_cells).bound
        if full:
            owner = np.repeat(np.arange(len(sets)), problem.vocab)
            columns = np.tile(np.arange(problem.vocab), len(sets))
            accepts = (sets.tokens[owner] == columns[:, None]).any(axis=1).astype(np.float64)
            values = self._solve(problem, sets, owner, columns, accepts, equality=True)
            indptr = np.arange(len(sets) + 1) * problem.vocab
            plan = Coupling.fit_table(problem, sets, indptr, columns, values, bound)
        else:
            accepts = np.ones(sets.cells.size)
            values = self._solve(problem, sets, sets.owner, sets.cells, accepts, equality=False)
            plan = Coupling.fit(problem, sets, values, bound)
        return Solution(plan, {"sets": len(sets), "cells": values.size})

    def _solve(
        self,
        problem: Problem,
        sets: DraftSets,
        owner: IntArray,
        columns: IntArray,
        accepts: FloatArray,
        equality: bool,
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

"""The process that measures: one cell at a time, a record per position, killed from outside where it hangs."""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection

import numpy as np

from otspec.bench.records import Record
from otspec.bench.solvers.cells import Cell, Sampling
from otspec.catalogue import get
from otspec.certificate import FLOW_CELLS, cells_at_most, optimum
from otspec.data import Source
from otspec.errors import DataError, ProblemError
from otspec.laws import IntArray
from otspec.plans import Plan
from otspec.problem import Problem
from otspec.results import Status
from otspec.solver import Solver, Stopped, TupleSolver
from otspec.solving import solve


@dataclass(frozen=True)
class Questions:
    """The inputs of every solver."""

    sources: Mapping[str, Source]
    sampling: Sampling
    seed: int
    """Of the drafts."""

    def pose(self, cell: Cell, index: int) -> tuple[Problem, IntArray]:
        """The compact problem of a position, and one tuple of drafts, both the same for every solver.

        Raises
        ------
        DataError
            If the position makes no problem; the message says which, and why.
        """
        source = self.sources[cell.data]
        try:
            problem = self.sampling.problem(source.position(index), cell.k, cell.n).compact().problem
            drafts = problem.scheme.sample(np.random.default_rng([self.seed, index, cell.k, cell.n]))
        except (DataError, ProblemError) as error:
            raise DataError(f"{source.name}, position {index}: {error}") from error
        return problem, drafts


def serve(connection: Connection, questions: Questions) -> None:
    """Measure each (cell, index) that arrives, until None does.

    Messages sent back: ("ready", None) once; then for each position ("start", None) when it is posed and its solver
    compiled and imported, ("timed", seconds) at the end of the timed part, and ("record", record); of a position that
    makes no problem, the record alone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent, which ends this process
    connection.send(("ready", None))
    warm = set()
    while (task := connection.recv()) is not None:
        cell, index = task
        if cell not in warm:
            with suppress(Exception):  # what is wrong with a solver is for the record of a position
                warm_up(get(cell.solver), questions.sampling.probe(cell.n))
            warm.add(cell)
        try:
            problem, drafts = questions.pose(cell, index)
        except DataError as error:
            connection.send(("record", _failed(cell, index, "INVALID", str(error), 0.0)))
            continue
        connection.send(("start", None))
        record = measure(cell, index, problem, drafts, lambda wall_s: connection.send(("timed", wall_s)))
        connection.send(("record", record))


def warm_up(solver: Solver, problem: Problem) -> None:
    """Solve a small problem of the kind that is timed next, which then pays for no import and no compilation."""
    drafts = problem.scheme.sample(np.random.default_rng(0))
    plan = solve(problem, solver, strict=False).plan
    if plan is not None:
        plan.conditional(drafts)
    if isinstance(solver, TupleSolver):
        with suppress(Stopped):
            solver.conditional(problem, drafts)


def measure(cell: Cell, index: int, problem: Problem, drafts: IntArray, timed: Callable[[float], None]) -> Record:
    """Time one token: from the problem to the law of the output given the drafts.

    A solver that can answer for one tuple alone is timed on that; its full plan is then solved off the clock, for the
    figures.
    """
    started = time.perf_counter()
    try:
        return _measure(cell, index, problem, drafts, timed)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{type(error).__name__}: {error} ({place.filename}, line {place.lineno})"
        return _failed(cell, index, "RAISED", message, time.perf_counter() - started)


def _measure(cell: Cell, index: int, problem: Problem, drafts: IntArray, timed: Callable[[float], None]) -> Record:
    solver = get(cell.solver)
    started = time.perf_counter()
    if isinstance(solver, TupleSolver):
        try:
            solver.conditional(problem, drafts)
            solved = True
        except Stopped:  # the full solve stops too, and records why
            solved = False
        wall_s = time.perf_counter() - started
        timed(wall_s)
        result = solve(problem, solver, strict=False)
        solved &= result.status is not Status.NUMERICAL
    else:
        result = solve(problem, solver, strict=False)
        if result.plan is not None:
            result.plan.conditional(drafts)
        wall_s = time.perf_counter() - started
        timed(wall_s)
        solved = result.success
    plan = result.plan
    return asdict(cell) | {
        "position": index,
        "solved": solved,
        "status": result.status.name,
        "message": result.message,
        "wall_s": wall_s,
        "optimum": _best(problem, plan if result.status is Status.OPTIMAL else None),
        # Plans and sizes of a user's own may be numpy's numbers, which JSON does not take.
        "acceptance": None if plan is None else float(plan.acceptance),
        "gap": None if plan is None else float(plan.gap),
        "deviation": None if plan is None else float(plan.deviation),
        "cells": int(sum(size for name, size in result.stats.sizes.items() if name.endswith("cells"))) or None,
    }


def _best(problem: Problem, certified: Plan | None) -> float | None:
    """alpha*: computed where that takes no long flow, else the bound of a plan that attains it, else unknown."""
    if problem.n == 1 or problem.scheme.prefix_order(problem.p) is not None or cells_at_most(problem) <= FLOW_CELLS:
        return optimum(problem).acceptance
    return None if certified is None else certified.bound


def _failed(cell: Cell, index: int, status: str, message: str, wall_s: float) -> Record:
    return asdict(cell) | {
        "position": index,
        "solved": False,
        "status": status,
        "message": message,
        "wall_s": wall_s,
        **dict.fromkeys(("optimum", "acceptance", "gap", "deviation", "cells")),
    }

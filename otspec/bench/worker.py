"""The process that measures: one cell at a time, a record per position, killed from outside where it hangs."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import numpy as np

from otspec.bench.cells import Cell
from otspec.bench.records import Record
from otspec.catalogue import get
from otspec.certificate import optimum
from otspec.data import Source
from otspec.laws import IntArray
from otspec.problem import Problem
from otspec.results import Status
from otspec.solver import Stopped, TupleSolver
from otspec.solving import solve, warm_up


def serve(connection: Connection, source: Source, seed: int) -> None:
    """Measure each (cell, index) that arrives, until None does.

    Messages sent back: ("ready", None) once; then for each position ("start", None) when it is posed and its solver
    compiled and imported, ("timed", seconds) at the end of the timed part, and ("record", record).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent, which ends this process
    connection.send(("ready", None))
    warm = set()
    while (task := connection.recv()) is not None:
        cell, index = task
        if cell not in warm:
            warm_up(get(cell.solver), cell.n)
            warm.add(cell)
        problem, drafts = pose(source, cell, seed, index)
        connection.send(("start", None))
        record = measure(cell, index, problem, drafts, lambda wall_s: connection.send(("timed", wall_s)))
        connection.send(("record", record))


def pose(source: Source, cell: Cell, seed: int, index: int) -> tuple[Problem, IntArray]:
    """The compact problem of a position, and one tuple of drafts, both the same for every solver."""
    problem = source.position(index).problem(cell.n, top_k=cell.k or None).compact().problem
    return problem, problem.scheme.sample(np.random.default_rng([seed, index, cell.k, cell.n]))


def measure(cell: Cell, index: int, problem: Problem, drafts: IntArray, timed: Callable[[float], None]) -> Record:
    """Time one token: from the problem to the law of the output given the drafts.

    A solver that can answer for one tuple alone is timed on that; its full plan is then solved off the clock, for the
    figures.
    """
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
    best = optimum(problem)
    plan = result.plan
    return {
        "solver": cell.solver,
        "k": cell.k,
        "n": cell.n,
        "position": index,
        "solved": solved,
        "status": result.status.name,
        "message": result.message,
        "wall_s": wall_s,
        "optimum": best.acceptance,
        "acceptance": None if plan is None else plan.acceptance,
        "gap": None if plan is None else plan.gap,
        "deviation": None if plan is None else plan.deviation,
        "cells": sum(size for name, size in result.stats.sizes.items() if name.endswith("cells")) or None,
    }

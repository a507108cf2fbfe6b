"""Warming up: what is compiled or imported at first use, before anything is timed."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from otspec.catalogue import as_solver, get
from otspec.kernels.byte_drafts import ByteDrafter, Cache, draft, read_text
from otspec.kernels.byte_weights import ByteLayer, ByteMatrix
from otspec.kernels.few_rows import add_and_normalise, gate, normalise, turn
from otspec.kernels.merged_rest import split_laws, split_scores
from otspec.kernels.truncation import truncate
from otspec.problem import Problem
from otspec.schemes import IID, DraftScheme, Greedy, HubPairs, Independent, Table, WithoutReplacement
from otspec.solver import Solver, Stopped, TupleSolver
from otspec.solving import default_chain, solve
from otspec.verification import solve_batch, verify
from otspec.verification.evaluation.accepted_length import accepted_length
from otspec.verification.evaluation.synthetic import synthetic
from otspec.verification.rules.nested.nested import Nested

TARGET, DRAFT = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
"""Laws of the small problems that are solved."""


def warm_up(solver: str | Solver | None = None, n: int = 2) -> None:
    """Solve a small problem, so that the times measured next do not include imports and compilation.

    Without a solver, run the solver of choice for every kind of drafts, `otspec.verify` and `otspec.solve_batch` on
    float32 and float64, nested labels on a small tree, and the kernels of a model's pass over few rows and of a draft.
    The machine code is kept on disk: some two minutes after an installation, a second or less in every process
    thereafter.

    Parameters
    ----------
    solver : str or Solver, optional
        As in `otspec.solve`.
    n : int
        Drafts of the problem for that solver.

    Examples
    --------
    >>> import otspec
    >>> otspec.warm_up("interval")  # what is timed next is solving alone
    """
    if solver is not None:
        _run(Problem(TARGET, IID(DRAFT, n)), as_solver(solver))
        return
    solvers()
    rows()
    trees()
    passes()


def solvers() -> None:
    """Solve by the solver of choice of every kind of drafts."""
    p, q = TARGET, DRAFT
    distinct = (WithoutReplacement, Greedy)
    schemes: list[DraftScheme] = [IID(q, 2), HubPairs(q), Independent([q, p]), *(kind(q, 2) for kind in distinct)]
    schemes += [WithoutReplacement(q, 3), Table(np.array([[0, 1], [1, 2]]), np.array([0.5, 0.5]), 3)]
    for scheme in schemes:
        problem = Problem(p, scheme)
        for name in default_chain(problem):
            _run(problem, get(name))


def rows() -> None:
    """Verify one position and solve a batch, on float32 and float64."""
    for kind in (np.float32, np.float64):
        P, Q = np.array([[0.5, 0.25, 0.25]], dtype=kind), np.array([[0.25, 0.25, 0.5]], dtype=kind)
        verify(P[0], Q[0], np.array([2, 2]), np.random.default_rng(0))
        solve_batch(P, Q, 2)


def trees() -> None:
    """Verify a small tree by nested labels, and evaluate them there."""
    model = synthetic("tiny", vocab=3)
    tree = model.tree([[0, 0], [0, 1], [1, 0], [1, 2]], (2, 2))  # paths that part on both levels
    Nested().verify(tree, 0)
    Nested().stop_law(tree)
    accepted_length(Nested(), model, (2, 1), samples=2)


def passes() -> None:
    """Do what a layer of a large model does with few rows of bfloat16, draft by weights of 8 bits, and split laws."""
    rows, norm, none = np.ones((1, 4), np.uint16), np.ones(4, np.float32), np.empty(0, np.float32)
    normalise(rows, norm, 1e-5, rows)
    add_and_normalise(rows, rows, norm, 1e-5, rows, rows)
    gate(rows, np.ones((1, 1, 2), np.uint16))
    heads = np.ones((1, 1, 1, 2), np.uint16)
    turn(np.ones((1, 6), np.uint16), rows[:, :2].copy(), rows[:, 2:].copy(), none, none, 1e-5, 0, heads, heads, heads)
    four, eight, twelve = (
        ByteMatrix.of(np.ones((size, 4), np.float32), np.ones(size, np.float32)) for size in (4, 8, 12)
    )
    layer = ByteLayer(norm, twelve, none, none, four, norm, eight, four)
    model = ByteDrafter(rows, four, four, four, (layer,), norm, four, 1e-5)
    cache = Cache(np.ones((2, 1, 1, 8, 4), np.uint16), np.ones((8, 4), np.uint16), np.ones((8, 4), np.uint16))
    laws, tokens, read = np.ones((2, 4)), np.zeros(2, np.int64), (model, cache, np.array([1, 1]), np.zeros(4, np.int64))
    after = read_text(model, cache, tokens[:1], rows[None], 0, 0)
    found = np.ones(1, np.bool_), tokens[:1], laws[0, :1], laws[:1, :2].copy(), tokens[1:]
    split_laws(np.ones((1, 4)), *found)
    for scores in (rows, laws[:1].astype(np.float32)):
        split_scores(scores, *found)
    truncate(np.ones((1, 4), np.float32), 2, 0.5, 0.1)
    draft(*read, (1.0, 0, 1.0, 0.0), laws[0, :2] / 2, *after, 0, 0, laws, tokens)


def _run(problem: Problem, solver: Solver) -> None:
    """Solve, and do with the plan what can be done with it."""
    drafts = problem.scheme.support().drafts[-1]
    plan = solve(problem, solver, strict=False).plan
    if plan is not None:
        plan.conditional(drafts)
        plan.sample(drafts, np.random.default_rng(0))
    if isinstance(solver, TupleSolver):
        with suppress(Stopped):
            solver.conditional(problem, drafts)

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import IID, Problem, Status, solve
from otspec.plans import Coupling
from otspec.solvers import LP
from otspec.tolerances import TOL
from tests.each import each
from tests.instances import P4, Q4, Instance, sample_of_each
from tests.spellings import installed

needs_highspy = pytest.mark.skipif(not installed("lp"), reason="not installed: highspy")


def plan_of(problem: Problem, solver: LP) -> Coupling:
    plan = solve(problem, solver).plan
    assert isinstance(plan, Coupling)
    return plan


def test_form_is_one_of_two() -> None:
    with pytest.raises(ValueError, match="no form 'dual' of the program; known: relaxed, full"):
        LP(form="dual")


@needs_highspy
def test_sizes_are_those_of_the_published_programs() -> None:
    # Two drafts of 4 tokens: 4 sets of one token, 6 of two.
    problem = Problem(P4, IID(Q4, 2))
    assert solve(problem, LP()).stats.sizes == {"sets": 10, "cells": 4 + 6 * 2}
    assert solve(problem, LP(form="full")).stats.sizes == {"sets": 10, "cells": 10 * 4}


@needs_highspy
@each(instance=sample_of_each(4))
def test_full_program_couples_both_marginals(instance: Instance) -> None:
    # eq. (1) leaves nothing to the residual: rows carry the masses of the sets, columns p.
    problem = instance.problem
    plan = plan_of(problem, LP(form="full"))
    table = plan.values.reshape(len(plan.sets), problem.vocab)
    assert_allclose(table.sum(axis=1), plan.sets.mass, rtol=0, atol=TOL)
    assert_allclose(table.sum(axis=0), problem.p, rtol=0, atol=TOL)


@needs_highspy
@each(instance=sample_of_each(4))
def test_relaxed_program_serves_drafts_only(instance: Instance) -> None:
    problem = instance.problem
    relaxed, full = plan_of(problem, LP()), plan_of(problem, LP(form="full"))
    assert relaxed.columns is relaxed.sets.cells
    # Both programs have the same value, read off the cells of the sets.
    assert relaxed.accepted.sum() == pytest.approx(full.accepted.sum(), abs=TOL)


@needs_highspy
@pytest.mark.parametrize("form", ["relaxed", "full"])
def test_time_limit_ends_in_limit(form: str) -> None:
    problem = Problem(np.full(40, 1 / 40), IID(np.arange(1, 41) / 820, 3))
    result = solve(problem, LP(form=form, time_limit_s=0.0, max_cells=10**6), strict=False)
    assert result.status is Status.LIMIT
    assert result.message == "HiGHS reached time_limit_s = 0"


def test_size_guard_counts_the_variables_of_the_form() -> None:
    problem = Problem(P4, IID(Q4, 2))
    relaxed = solve(problem, LP(max_cells=19), strict=False)
    full = solve(problem, LP(form="full", max_cells=39), strict=False)
    assert relaxed.status is full.status is Status.LIMIT
    assert relaxed.message.startswith("20 variables exceed max_cells = 19")
    assert full.message.startswith("40 variables exceed max_cells = 39")

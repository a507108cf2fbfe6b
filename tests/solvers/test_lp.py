from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otspec import IID, Problem, Status, Table, optimum, solve
from otspec.solvers import LP
from otspec.tolerances import TOL
from tests.each import each
from tests.instances import P4, Q4
from tests.spellings import installed
from tests.strategies import laws, some

needs_highspy = pytest.mark.skipif(not installed("lp"), reason="not installed: highspy")


@needs_highspy
def test_sizes_are_those_of_the_published_programs() -> None:
    # Two drafts of 4 tokens: 4 sets of one token, 6 of two.
    problem = Problem(P4, IID(Q4, 2))
    assert solve(problem, LP()).stats.sizes == {"sets": 10, "cells": 4 + 6 * 2}
    assert solve(problem, LP(form="full")).stats.sizes == {"sets": 10, "cells": 10 * 4}


PAIRS = np.stack(np.divmod(np.arange(2000), 50), axis=1)
DROPPED = {
    "two-sets-of-the-tolerance": ([0, 1], [[0], [1], [2]], [5e-14, 1, 5e-14]),
    "a-target-of-tails": ([5e-14, 0.499997497, 0.499997497, 5e-13, 5e-10, 5e-14, 5e-6, 5e-9], [[0]], [1.0]),
    "two-thousand-sets-of-the-tolerance": (np.eye(50)[3], PAIRS, np.append(1.0, np.full(1999, 5e-14))),
}
"""Target, tuples and their law, where HiGHS's presolve drops what lies within its tolerance and finds a total off."""


@needs_highspy
@each(case=DROPPED)
def test_full_program_survives_what_presolve_drops(case: tuple[Any, Any, Any]) -> None:
    check_full_program(*case)


@needs_highspy
@some
@given(data=st.data(), vocab=st.integers(2, 7), n=st.integers(1, 2))
def test_full_program_solves_tables_of_tiny_probabilities(data: st.DataObject, vocab: int, n: int) -> None:
    rows = data.draw(st.lists(st.integers(0, vocab**n - 1), min_size=2, unique=True))
    tuples = np.stack(np.unravel_index(rows, (vocab,) * n), axis=1)
    check_full_program(data.draw(laws(vocab)), tuples, data.draw(laws(len(rows))))


def check_full_program(p: Any, drafts: Any, law: Any) -> None:
    vocab = max(len(p), int(np.max(drafts)) + 1)
    problem = Problem(np.pad(np.asarray(p, dtype=np.float64), (0, vocab - len(p))), Table(drafts, law, vocab))
    plan = solve(problem, LP(form="full")).plan
    assert plan.acceptance == pytest.approx(optimum(problem).acceptance, abs=TOL)
    assert plan.deviation <= TOL


@needs_highspy
@pytest.mark.parametrize("form", ["relaxed", "full"])
def test_time_limit_ends_in_limit(form: str) -> None:
    problem = Problem(np.full(40, 1 / 40), IID(np.arange(1, 41) / 820, 3))
    result = solve(problem, LP(form=form, time_limit_s=0.0, max_cells=10**6), strict=False)
    assert result.status is Status.LIMIT
    assert result.message == "HiGHS reached time_limit_s = 0"


def test_highs_that_others_began_with_two_threads_still_solves() -> None:
    others = pytest.importorskip("highspy").Highs()
    others.resetGlobalScheduler(True)
    others.setOptionValue("threads", 2)
    others.addVar(0.0, 1.0)
    others.run()
    assert solve(Problem(P4, IID(Q4, 2)), LP()).status is Status.OPTIMAL

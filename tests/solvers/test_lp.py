from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import IID, Problem, SolveError, Status, Table, optimum, solve
from otspec.plans import Coupling
from otspec.solvers import LP, MaxFlow
from otspec.tolerances import TOL
from tests import laws
from tests.each import each
from tests.instances import P4, Q4, Instance, sample_of_each
from tests.oracles import Floats
from tests.spellings import installed, installed_or_skipped

FORMS = ("relaxed", "full", "tuples")
needs_highspy = pytest.mark.skipif(not installed("lp"), reason="not installed: highspy")


def plan_of(problem: Problem, solver: LP) -> Coupling:
    plan = solve(problem, solver).plan
    assert isinstance(plan, Coupling)
    return plan


def test_form_and_engine_are_known_ones() -> None:
    with pytest.raises(ValueError, match="no form 'dual' of the program; known: relaxed, full, tuples"):
        LP(form="dual")
    with pytest.raises(ValueError, match="no engine 'steam' of the program; known: highs, pot"):
        LP(engine="steam")


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
    p, drafts, law = case
    vocab = max(len(p), int(np.max(drafts)) + 1)
    problem = Problem(np.pad(np.asarray(p, dtype=np.float64), (0, vocab - len(p))), Table(drafts, law, vocab))
    plan = plan_of(problem, LP(form="full"))
    assert plan.acceptance == pytest.approx(optimum(problem).acceptance, abs=TOL)
    assert plan.deviation <= TOL


@needs_highspy
@each(seed=range(60))
def test_full_program_solves_tables_of_tiny_probabilities(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vocab, n = int(rng.integers(2, 8)), int(rng.integers(1, 3))
    rows = rng.choice(vocab**n, int(rng.integers(2, vocab**n + 1)), replace=False)
    p, law = (_tiny(rng, size) for size in (vocab, rows.size))
    problem = Problem(p, Table(np.stack(np.unravel_index(rows, (vocab,) * n), axis=1), law, vocab))
    plan = plan_of(problem, LP(form="full"))
    assert plan.acceptance == pytest.approx(optimum(problem).acceptance, abs=TOL)
    assert plan.deviation <= TOL


def _tiny(rng: np.random.Generator, size: int) -> Floats:
    """A point with specks of HiGHS's tolerance, or tails, in float32 every other time."""
    specks = rng.permutation(np.append(1.0, 5e-14 * rng.random(size - 1)))
    law = specks if rng.random() < 0.5 else 10.0 ** -rng.integers(0, 15, size)
    law = law / law.sum()
    return law.astype(np.float32).astype(np.float64) if rng.random() < 0.5 else law


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


HOSTILE: dict[str, laws.Kind] = {
    "model": laws.model,
    "peaked": laws.one_likely(laws.model),
    "tails": laws.smallest_floats(laws.model),
    "ties": laws.tied_ratios,
    "zeros": laws.zeros(laws.model, 0.3, 0.95),
    "disjoint": laws.disjoint(laws.model),
    "points": laws.one_of(laws.point_target(laws.model), laws.point_draft(laws.model)),
}


@pytest.mark.parametrize("spelling", installed_or_skipped([f"lp:engine=pot:form={form}" for form in FORMS]))
@each(family=HOSTILE.keys(), size=[(2, 2), (4, 3), (9, 2)])
def test_the_network_simplex_finds_the_optimum(spelling: str, family: str, size: tuple[int, int]) -> None:
    p, q = HOSTILE[family](np.random.default_rng([*size, *family.encode()]), size[0])
    problem = Problem(p, IID(q, size[1]))
    plan = solve(problem, spelling).plan
    assert plan.acceptance == pytest.approx(optimum(problem).acceptance, abs=1e-12)
    assert plan.deviation <= 1e-12


@pytest.mark.skipif(not installed("lp:engine=pot"), reason="not installed: ot")
def test_a_network_simplex_that_stops_early_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otspec.solvers.lp.STEPS", 1)
    p, q = laws.model(np.random.default_rng(0), 20)
    result = solve(Problem(p, IID(q, 2)), "lp:engine=pot", strict=False)
    assert (result.status, result.plan) == (Status.LIMIT, None)
    assert "POT stopped: numItermax reached" in result.message


@pytest.mark.parametrize("spelling", installed_or_skipped(["lp:form=tuples", "max_flow:form=tuples"]))
@each(instance=sample_of_each(4))
def test_a_row_per_tuple_is_the_same_optimum(spelling: str, instance: Instance) -> None:
    problem = instance.problem
    result = solve(problem, spelling)
    assert result.plan.acceptance == pytest.approx(optimum(problem).acceptance, abs=TOL)
    assert result.plan.deviation <= TOL
    assert result.stats.sizes["sets"] == len(problem.scheme.support().drafts)


def test_a_program_over_tuples_is_refused_by_its_size() -> None:
    problem = Problem(np.full(10, 0.1), IID(np.full(10, 0.1), 6))
    with pytest.raises(SolveError, match="10,000,000 variables exceed max_cells = 100,000"):
        solve(problem, "lp:form=tuples")
    with pytest.raises(SolveError, match="6,000,000 network edges exceed max_cells = 4,000,000"):
        solve(problem, "max_flow:form=tuples")
    with pytest.raises(ValueError, match="no form 'lists' of the network; known: sets, tuples"):
        MaxFlow(form="lists")

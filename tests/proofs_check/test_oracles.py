"""The oracles of the claims against those of the tests, which enumerate in another way."""

import numpy as np
import pytest

from otspec import IID, Independent, Problem
from otspec.proofs_check.instances import iid_problem, independent, law, subset_masses, table, table_problem
from otspec.proofs_check.oracles import (
    LP_TOL,
    full_program,
    iid_optimum,
    inside,
    members,
    psi,
    psi_independent,
    relaxed_program,
    token_sets,
    transport,
)
from tests.oracles import hit_function, mass_function, optimal_acceptance

RNG = np.random.default_rng(3)
TABLES = [table(RNG) for _ in range(12)]


@pytest.mark.parametrize("instance", TABLES, ids=range(len(TABLES)))
def test_token_sets_by_enumeration(instance: dict[str, np.ndarray]) -> None:
    problem = table_problem(**instance)
    within = 1 - hit_function(problem.scheme)[::-1]
    np.testing.assert_allclose(inside(instance["drafts"], instance["law"], problem.vocab), within, atol=1e-14)
    np.testing.assert_allclose(token_sets(problem.vocab) @ problem.p, mass_function(problem.p), atol=1e-15)
    np.testing.assert_allclose(np.subtract(*subset_masses(problem)), psi(**instance), atol=1e-14)


@pytest.mark.parametrize("instance", TABLES, ids=range(len(TABLES)))
def test_programs_and_flows_reach_the_optimum(instance: dict[str, np.ndarray]) -> None:
    p, mass = instance["p"], instance["law"]
    best = optimal_acceptance(table_problem(**instance))
    member = members(instance["drafts"], p.size)
    for program in (relaxed_program(p, member, mass), full_program(p, member, mass)):
        value, solution = program.solve()
        assert value == pytest.approx(best, abs=LP_TOL)
        assert solution.min() >= -LP_TOL
    for order in (None, RNG.permutation(p.size)):
        served = transport(p, member, mass, order)
        assert served.sum() == pytest.approx(best, abs=1e-14)
        assert served.min() >= 0
        assert not served[~member].any()
        assert (served.sum(axis=0) <= p + 1e-15).all()
        assert (served.sum(axis=1) <= mass + 1e-15).all()


def test_independent_drafts() -> None:
    for _ in range(10):
        instance = independent(RNG)
        problem = Problem(instance["p"], Independent(instance["qs"]))
        assert 1 + psi_independent(**instance).min() == pytest.approx(optimal_acceptance(problem), abs=1e-14)
    p, q = law(RNG, 4), law(RNG, 4)
    assert iid_optimum(p, q, 3) == pytest.approx(optimal_acceptance(Problem(p, IID(q, 3))), abs=1e-14)
    assert iid_problem(p, q, 3).n == 3

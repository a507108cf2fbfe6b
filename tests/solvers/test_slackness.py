from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import IID, Independent, Problem, Table, optimum, solve
from otspec.kernels.max_flow import Network
from otspec.solver import Stopped
from otspec.solvers import Slackness
from otspec.solvers.max_flow.engines import ENGINES
from tests.each import check_each
from tests.instances import Q4, VARIED, Instance, sample_of_each
from tests.oracles import Floats

SPLIT = Problem(np.array([0.5, 0.4, 0.06, 0.04]), IID(Q4, 2))
"""H* = {2, 3}: 1 - 0.7**2 + 0.1 = 0.61, against 0.69 for {1, 2, 3} and more for all others."""


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[Network]:
    """The networks that the numba engine is asked to solve, in order."""
    networks: list[Network] = []
    engine = ENGINES["numba"]

    def counting(network: Network) -> Floats:
        networks.append(network)
        return engine(network)

    monkeypatch.setitem(ENGINES, "numba", counting)
    return networks


def conditionals_are_those_of_the_full_plan(instance: Instance, solver: Slackness) -> None:
    problem = instance.problem
    plan = solve(problem, solver).plan
    # The orders of one set are one system and one row of it: the last of them stands for all.
    by_set = {frozenset(drafts.tolist()): drafts for drafts in problem.scheme.support().drafts}
    for drafts in by_set.values():
        probability = float(problem.scheme.prob(drafts))
        # Weighted: given drafts of probability 1e-200, rounding of p's residual may decide between tokens.
        one, full = solver.conditional(problem, drafts), plan.conditional(drafts)
        assert_allclose(probability * one, probability * full, rtol=0, atol=1e-12)
        assert (one >= 0).all()
        assert not one[problem.p == 0].any()
        assert one.sum() == pytest.approx(1.0, abs=1e-12)


def test_one_tuple_has_the_law_of_the_full_plan(engine: str) -> None:
    instances = VARIED if engine == "numba" else sample_of_each(1)
    check_each(partial(conditionals_are_those_of_the_full_plan, solver=Slackness(engine=engine)), instance=instances)


def test_one_tuple_costs_one_system(solved: list[Network]) -> None:
    # Sets with 0 or 1 in them make the outer system, {2}, {3} and {2, 3} the inner one.  A flow is needed for {0, 1}
    # and for {2, 3} alone: any other set has one cell in its system.
    assert optimum(SPLIT).minimiser.tolist() == [2, 3]
    outer, inner = [0.5 - 0.01 - 2 * 0.1 * 0.7, 0.4 - 0.04 - 2 * 0.2 * 0.7], [0.0, 0.0]
    for drafts, supply in (([0, 3], outer), ([1, 1], outer), ([3, 2], inner), ([2, 2], inner)):
        solved.clear()
        Slackness().conditional(SPLIT, np.array(drafts))
        (network,) = solved
        assert network.left.tolist() == [0, 1]
        assert network.demand == pytest.approx([0.04 if supply is outer else 0.24])
        assert (network.supply <= np.array(supply) + 1e-15).all()


def test_two_drafters_are_cut_along_tokens(solved: list[Network], monkeypatch: pytest.MonkeyPatch) -> None:
    # The bipartite flow is what the two systems replace: with two drafts H* must not come from it.
    problem = Problem(SPLIT.p, Independent([Q4, Q4[[1, 0, 2, 3]]]))
    reference = optimum(Problem(problem.p, Table(*problem.scheme.support(), problem.vocab)))
    monkeypatch.setattr("otspec.certificate.min_cut", None)
    result = solve(problem, Slackness())
    assert result.plan.acceptance == pytest.approx(reference.acceptance, abs=1e-14)
    assert abs(result.plan.gap) <= 1e-14
    assert sum(network.left.size for network in solved) < problem.scheme.draft_sets().cells.size / 2


def test_size_guard_counts_exactly_and_holds_for_one_tuple_as_well() -> None:
    # Two drafts of 4 tokens: 4 + 6 sets, of at most 2 cells each.
    assert solve(SPLIT, Slackness(max_cells=20)).success
    with pytest.raises(Stopped, match="20 network edges exceed max_cells = 19"):
        Slackness(max_cells=19).conditional(SPLIT, np.array([0, 1]))

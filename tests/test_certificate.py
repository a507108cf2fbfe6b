import itertools

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from otspec import IID, Independent, Problem, ProblemError, Table, optimum, solve
from otspec.certificate import FLOW_CELLS, upper_bound
from tests.each import each
from tests.instances import BY_PREFIXES, P4, Q4, SMALL, Instance, peaked_problem
from tests.oracles import hit_function, mass_function, optimal_acceptance

ROUNDING = 1e-13
"""Sums of at most 216 products of probabilities, here and in the oracle."""


@each(instance=SMALL)
def test_both_sides_meet_at_the_enumerated_optimum(instance: Instance) -> None:
    """The proposal is a base of the hit function, and the minimiser where it exceeds the target."""
    problem = instance.problem
    best, alpha = optimum(problem), optimal_acceptance(problem)
    assert best.acceptance == pytest.approx(alpha, abs=ROUNDING)
    assert best.bound == pytest.approx(alpha, abs=1e-12)  # TIE_TOL lets H* miss tokens that are even up to rounding
    assert best.gap == best.bound - best.acceptance
    # g(A) <= f(A) for all A and g(V) = 1: exactly the laws that some choice among the drafts can have.
    assert (best.proposal >= 0).all()
    assert best.proposal.sum() == pytest.approx(1.0, abs=ROUNDING)
    assert (mass_function(best.proposal) - hit_function(problem.scheme)).max() <= ROUNDING
    over_drafted = np.zeros(problem.vocab, dtype=bool)
    over_drafted[best.minimiser] = True
    assert_array_equal(best.minimiser, np.flatnonzero(over_drafted))  # ascending, each once
    excess = best.proposal - problem.p
    assert (excess[over_drafted] >= -ROUNDING).all()
    assert (excess[~over_drafted] <= 1e-12).all()  # TIE_TOL


@each(instance=[i for i in BY_PREFIXES if i.problem.vocab <= 5 and i.problem.p.min() > 1e-9])
def test_proposal_minimises_chi_square_over_all_bases(instance: Instance) -> None:
    # First-order condition of the convex sum g**2 / p at every vertex of the base polytope, one per order of tokens.
    problem = instance.problem
    proposal = optimum(problem).proposal
    slope = proposal / problem.p
    orders = itertools.permutations(range(problem.vocab))
    vertices = np.array([problem.scheme.priority_law(np.array(order)) for order in orders])
    descent = (vertices - proposal) @ slope
    assert descent.min() >= -ROUNDING * max(1.0, slope.max())


@each(n=[*range(1, 17), 64])
def test_realistic_vocabulary_is_certified_to_rounding(n: int) -> None:
    # A difference of powers would lose the tail here; 1e-12 is what 20 000 float64 terms cost.
    problem = peaked_problem(20_000, n)
    best = optimum(problem)
    assert abs(best.gap) <= 1e-12
    assert best.proposal.sum() == pytest.approx(1.0, abs=1e-12)
    assert 0.4 < best.acceptance < 1 - 1e-5  # neither trivial end
    assert 0 < best.minimiser.size < problem.vocab


def test_equal_laws_over_draft_no_token() -> None:
    for scheme in (IID(Q4, 3), Table(np.arange(4)[:, None], Q4, 4)):
        assert optimum(Problem(Q4, scheme)).minimiser.size == 0


def test_tokens_without_target_mass_are_over_drafted_even_where_their_priority_law_underflows() -> None:
    # The chance that all 64 drafts fall on them, (1e-6)**64, is 0 in float64; left out of H*, they would loosen the
    # bound by the chance that one does, 6e-5.
    q = np.concatenate((np.full(100, 1e-8), [0.9, 0.1 - 1e-6]))
    p = np.concatenate((np.zeros(100), [0.1, 0.9]))
    best = optimum(Problem(p, IID(q, 64)))
    assert best.minimiser[:100].tolist() == list(range(100))
    assert best.gap == pytest.approx(0.0, abs=1e-12)


def test_the_bound_of_a_scheme_without_an_order_holds_at_any_size() -> None:
    rng = np.random.default_rng(0)
    for vocab in (6, 2000):
        p = rng.dirichlet(np.ones(vocab))
        tuples = np.unique(rng.integers(vocab, size=(FLOW_CELLS, 3)), axis=0)[: 10 * vocab]
        problem = Problem(p, Table(tuples, rng.dirichlet(np.ones(len(tuples))), vocab))
        bound = upper_bound(problem)
        plan = solve(problem, "max_flow").plan
        assert bound >= plan.acceptance - ROUNDING
        assert bound <= 1.0 + ROUNDING


def test_an_optimum_too_large_for_a_flow_is_refused_at_once() -> None:
    uniform = np.full(400, 1 / 400)
    problem = Problem(uniform, Independent(np.stack([uniform] * 3)))
    with pytest.raises(ProblemError, match="192,000,000 cells, more than max_cells = 4,000,000; take"):
        optimum(problem)
    small = Problem(P4, Independent(np.stack([P4, P4])))
    with pytest.raises(ProblemError, match="20 cells, more than max_cells = 19"):
        optimum(small, max_cells=19)
    assert optimum(small, max_cells=20).acceptance == pytest.approx(1.0)
    with pytest.raises(ProblemError, match=r"the problem is a list; pass an otspec\.Problem"):
        optimum([0.5, 0.5])  # type: ignore[arg-type]

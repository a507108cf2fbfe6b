"""The best rule at a price, against a linear program, enumeration and draws."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import otspec
from otspec import IID, Problem, ProblemError, WithoutReplacement, best_lossy_plan
from tests.each import each
from tests.instances import P4, Q4, SCHEMES
from tests.oracles import check_plan, check_sampled


def best_at(problem: Problem, price: float) -> float:
    """A linear program: variables are the plan's cells, then what the output has over p and under it."""
    drafts, law = problem.scheme.support()
    vocab, tuples = problem.vocab, len(drafts)
    cells = tuples * vocab
    gain = np.concatenate([np.isin(np.arange(vocab), row).astype(float) for row in drafts] + [np.zeros(2 * vocab)])
    by_tuple = np.hstack([np.kron(np.eye(tuples), np.ones(vocab)), np.zeros((tuples, 2 * vocab))])
    by_token = np.hstack([np.tile(np.eye(vocab), tuples), -np.eye(vocab), np.eye(vocab)])
    paid = np.concatenate([np.zeros(cells), np.ones(vocab), np.zeros(vocab)])[None]
    equal, totals = np.vstack([by_tuple, by_token]), np.concatenate([law, problem.p])
    found = linprog(-gain, A_ub=paid, b_ub=[price], A_eq=equal, b_eq=totals, method="highs")
    return -float(found.fun or 0.0)


@each(scheme=[scheme for name, scheme in SCHEMES.items() if name != "table"], price=(0.0, 1e-3, 0.05, 0.3, 1.0))
def test_it_accepts_as_much_as_any_rule_at_its_price(scheme: Any, price: float) -> None:
    problem = Problem(P4, scheme)
    plan = best_lossy_plan(problem, price)
    found = check_plan(plan, off=plan.max_deviation)
    assert np.abs(found.output - problem.p).sum() / 2 == pytest.approx(plan.price, abs=1e-12)
    assert plan.price <= price + 1e-12
    within = 1e-4 if isinstance(scheme, WithoutReplacement) else 1e-7  # what `without_replacement` is certified to
    assert found.membership == pytest.approx(best_at(problem, price), abs=within)
    assert plan.acceptance == pytest.approx(found.membership, abs=1e-9)
    assert -1e-9 <= plan.gap <= within
    assert plan.deviation == pytest.approx(plan.max_deviation, abs=1e-12)


def test_it_is_the_solvers_own_plan_at_no_price_and_never_pays_more_than_it_takes() -> None:
    problem = Problem(P4, IID(Q4, 2))
    alpha = otspec.solve(problem).plan.acceptance
    assert best_lossy_plan(problem, 0).acceptance == pytest.approx(alpha, abs=1e-15)
    assert best_lossy_plan(problem, 1).price == pytest.approx(1 - alpha, abs=1e-15)
    assert best_lossy_plan(problem, 1).acceptance == pytest.approx(1, abs=1e-15)
    close = Problem(0.98 * Q4 + 0.02 * P4, IID(Q4, 1))
    assert best_lossy_plan(close, 1e-3).acceptance == pytest.approx(otspec.solve(close).plan.acceptance + 1e-3)
    always = best_lossy_plan(Problem(Q4, IID(Q4, 1)), 0.5)
    assert always.price == 0
    assert always.acceptance == pytest.approx(1)


@pytest.mark.parametrize("seed", range(8))
def test_hostile_laws(seed: int) -> None:
    """Zeros, point masses, tails of 1e-300 and a large vocabulary: what it pays and accepts is what it says."""
    rng = np.random.default_rng(seed)
    p, q = rng.gamma(0.05, size=(2, 2000))
    p[rng.random(2000) < 0.3], q[rng.random(2000) < 0.3] = 0.0, 1e-300
    problem = Problem(p / p.sum(), IID(q / q.sum(), 3))
    plan, alpha = best_lossy_plan(problem, 0.02), otspec.solve(problem).plan.acceptance
    assert plan.acceptance == pytest.approx(min(alpha + 0.02, 1), abs=1e-12)
    assert np.abs(plan.output_law() - problem.p).sum() / 2 <= 0.02 + 1e-12


def test_what_it_draws_has_its_law() -> None:
    check_sampled(best_lossy_plan(Problem(P4, IID(Q4, 2)), 0.05))


@each(epsilon=(-0.1, 1.5, float("nan"), "much", True, None))
def test_a_price_is_a_total_variation(epsilon: Any) -> None:
    with pytest.raises(ProblemError, match=r"epsilon is .*; pass a total variation in \[0, 1\]"):
        best_lossy_plan(Problem(P4, IID(Q4, 2)), epsilon)
    with pytest.raises(ProblemError, match=r"the plan is a .*, which picks no draft whose law is known; solve with"):
        best_lossy_plan(Problem(P4, IID(Q4, 2)), 0.1, "kseq")

"""The best rule at a price, against all token sets, enumeration and draws; a linear program is in its claims."""

from typing import Any

import numpy as np
import pytest

import otspec
from otspec import IID, Problem, ProblemError, WithoutReplacement, best_lossy_plan
from tests.each import each
from tests.instances import P4, Q4, SCHEMES
from tests.oracles import check_plan, check_sampled, optimal_acceptance


@each(scheme=[scheme for name, scheme in SCHEMES.items() if name != "table"], price=(0.0, 1e-3, 0.05, 0.3, 1.0))
def test_it_accepts_as_much_as_any_rule_at_its_price(scheme: Any, price: float) -> None:
    problem = Problem(P4, scheme)
    plan = best_lossy_plan(problem, price)
    found = check_plan(plan, off=plan.max_deviation)
    assert np.abs(found.output - problem.p).sum() / 2 == pytest.approx(plan.price, abs=1e-12)
    assert plan.price <= price + 1e-12
    within = 1e-4 if isinstance(scheme, WithoutReplacement) else 1e-7  # what `without_replacement` is certified to
    assert found.membership == pytest.approx(min(optimal_acceptance(problem) + price, 1.0), abs=within)
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

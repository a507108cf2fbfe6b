from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chisquare

from otspec import IID, Problem, ProblemError, Status, Systematic, solve
from tests.each import each
from tests.instances import P4, Q4


@each(n=(2, 4, 16))
def test_whole_vocabulary(n: int) -> None:
    rng = np.random.default_rng(n)
    target = 2 * rng.laplace(size=128_256)
    draft = target + 0.5 * rng.standard_normal(target.size)
    p, q = (np.exp(z) / np.exp(z).sum() for z in (target, draft))
    scheme = Systematic(q, n)
    plan = solve(Problem(p, scheme), "earliest_deadline").plan
    assert plan is not None
    assert abs(plan.gap) <= 1e-12
    assert plan.deviation <= 1e-12
    for drafts in scheme.sample(rng, 20):
        assert plan.conditional(drafts).sum() == pytest.approx(1.0, abs=1e-12)


def test_output_follows_p() -> None:
    scheme = Systematic(Q4, 2)
    plan = solve(Problem(P4, scheme), "earliest_deadline").plan
    assert plan is not None
    rng = np.random.default_rng(0)
    outputs = [plan.sample(drafts, rng) for drafts in scheme.sample(rng, 4000)]
    assert chisquare(np.bincount(outputs, minlength=4), 4000 * P4).pvalue > 1e-3  # fixed seed


def test_takes_a_compact_problem() -> None:
    q = np.array([0.0, 0.4, 0.3, 0.0, 0.3])
    p = np.array([0.1, 0.2, 0.3, 0.3, 0.1])
    problem = Problem(p, Systematic(q, 2))
    whole, compact = (
        solve(problem, "earliest_deadline").plan,
        solve(problem.compact().problem, "earliest_deadline").plan,
    )
    assert whole is not None
    assert compact is not None
    assert_allclose(compact.acceptance, whole.acceptance, rtol=1e-15)


def test_takes_no_other_scheme() -> None:
    result = solve(Problem(P4, IID(Q4, 2)), "earliest_deadline", strict=False)
    assert result.status is Status.UNSUPPORTED
    assert "not IID" in result.message


def test_refuses_drafts_in_another_order() -> None:
    scheme = Systematic(Q4, 2)
    plan = solve(Problem(P4, scheme), "earliest_deadline").plan
    assert plan is not None
    first = scheme.support().drafts[0]
    with pytest.raises(ProblemError, match="in this order"):
        plan.conditional(first[::-1])

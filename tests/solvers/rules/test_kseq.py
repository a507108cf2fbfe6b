"""K-SEQ's gamma."""

import numpy as np
import pytest

from otspec import IID, Problem, Status, solve
from otspec.solvers.rules.kseq import best_gamma
from tests.instances import P4, Q4, Instance
from tests.oracles import enumerate_plan
from tests.solvers.rules import published
from tests.solvers.rules.test_every_rule import ROUNDING, iid, plan_of


@iid
def test_best_gamma_is_the_least_that_leaves_nothing_negative(instance: Instance) -> None:
    assert isinstance(instance.problem.scheme, IID)
    p, q, n = instance.problem.p, instance.problem.scheme.q, instance.problem.n
    gamma, bisected = best_gamma(p, q, n), published.best_gamma(p.tolist(), q.tolist(), n)
    failures = [1 - np.minimum(q, p / value).sum() for value in (gamma, bisected)]
    assert 1 <= gamma <= n
    assert sum(failures[0] ** j for j in range(n)) <= gamma + ROUNDING
    # Where p and q nearly agree, failure**n is so flat that gamma itself has few digits; what is accepted has all.
    assert failures[0] ** n == pytest.approx(failures[1] ** n, abs=ROUNDING)


def test_known_gammas() -> None:
    assert best_gamma(P4, P4, 3) == pytest.approx(1.0, abs=1e-15)  # every draft passes
    assert best_gamma(np.array([1.0, 0.0]), np.array([0.0, 1.0]), 3) == 3.0  # none does
    # p = (1, 0), n = 2: beta = min(q, 1/gamma) = q below gamma = 1/q, so gamma = 1 + (1 - q).
    assert best_gamma(np.array([1.0, 0.0]), np.array([0.25, 0.75]), 2) == pytest.approx(1.75, rel=1e-15)


def test_a_gamma_that_is_too_small_is_refused_or_measured() -> None:
    problem = Problem(P4, IID(Q4, 3))
    best = best_gamma(P4, Q4, 3)
    assert best > 1.3
    refused = solve(problem, "kseq:gamma=1.3", strict=False)
    assert refused.status is Status.UNSUPPORTED
    assert f"gamma = 1.3 is below {best:.9g}, the least that is lossless here" in refused.message
    result = solve(problem, "kseq:gamma=1.3:allow_biased=true")
    assert result.status is Status.LOSSY
    plan = result.plan
    assert plan is not None
    enumeration = enumerate_plan(plan)
    assert plan.deviation == pytest.approx(np.abs(enumeration.output - P4).sum(), abs=ROUNDING)
    assert plan.deviation > 0.01
    assert plan.acceptance > plan_of(problem, "kseq").acceptance  # the bias looks like an improvement


def test_no_law_of_three_tokens_is_worse_for_two_drafts() -> None:
    problem = Problem(np.array([1, 3, 5]) / 9, IID(np.full(3, 1 / 3), 2))
    assert solve(problem, "kseq").plan.acceptance == pytest.approx(8 / 9, abs=1e-12)
    assert solve(problem, "lp").plan.acceptance == pytest.approx(1, abs=1e-12)

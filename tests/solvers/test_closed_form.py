from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import Greedy, Problem, TopK, solve
from otspec.plans import Pick
from tests.each import each
from tests.oracles import Floats


def pick(problem: Problem) -> Pick:
    plan = solve(problem, "closed_form").plan
    assert isinstance(plan, Pick)
    return plan


def greedy_rule(p: Floats, last: Floats, token: int) -> Floats:
    """Output law given the last draft, by single-draft verification against its law [hu2025towards]."""
    residual = np.maximum(p - last, 0.0)
    accepted = min(1.0, p[token] / last[token])
    law = (1 - accepted) * residual / residual.sum()
    law[token] += accepted
    return law


@each(n=(1, 2, 3))
def test_puts_out_what_the_published_rule_puts_out(n: int) -> None:
    rng = np.random.default_rng(n)
    p, q = rng.dirichlet(np.ones(8), 2)
    scheme = Greedy(q, n)
    plan = pick(Problem(p, scheme))
    for drafts in scheme.support().drafts:
        assert_allclose(plan.conditional(drafts), greedy_rule(p, scheme.last, drafts[-1]), rtol=0, atol=1e-14)


@pytest.mark.parametrize("scheme", [Greedy, TopK])
@each(n=(1, 2, 4, 16))
def test_whole_vocabulary(scheme: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    target = 2 * rng.laplace(size=128_256)
    draft = target + 0.5 * rng.standard_normal(target.size)
    p, q = (np.exp(z) / np.exp(z).sum() for z in (target, draft))
    plan = pick(Problem(p, scheme(q, n)))
    assert abs(plan.gap) <= 1e-13
    assert plan.deviation <= 1e-13

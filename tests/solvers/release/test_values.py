"""The recursions over the nodes: what a token is worth, and what its release probability gives it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import WithoutReplacement, solve
from otspec.kernels.arrivals import Nodes
from otspec.plans import Pick
from otspec.solvers import Release
from otspec.solvers.release.fit import dirichlet_rule
from otspec.solvers.release.rule import ReleaseRule
from otspec.solvers.release.values import release, start_arrivals, staying_worth
from tests.each import each
from tests.oracles import law_of_the_pick
from tests.solvers.release.test_solver import distinct


@each(n=(2, 3, 4))
def test_any_release_probabilities_give_the_law_that_their_recursions_say(n: int) -> None:
    # Not only those that a fit finds, and not only in the lowest block: here tokens 2 to 5 of 7 are fitted.
    rng = np.random.default_rng(n)
    q = rng.dirichlet(np.full(7, 0.7))
    scheme = WithoutReplacement(q, n)
    order = np.arange(7)
    arrivals = start_arrivals(scheme.q, scheme.heavy, 2, 6, scheme.nodes, *dirichlet_rule(n))
    released, gained, worth = np.empty(4), np.empty(4), np.empty(4)
    release(arrivals, rng.dirichlet(np.ones(4)) * 0.7, rng.dirichlet(np.ones(4)) * 0.2, released, gained)
    staying_worth(arrivals, released, worth)
    law = scheme.priority_law(order)
    law[2:6] = gained + (1 - released) * worth
    rule = ReleaseRule(order, np.array([0, 1, 2, 6]), np.r_[1.0, 1.0, released, 1.0], law, 7)
    assert np.count_nonzero(released) > 0 and released.min() < 1  # noqa: PT018
    assert_allclose(law_of_the_pick(scheme, rule), law, rtol=0, atol=1e-14)
    assert law.sum() == pytest.approx(1.0, abs=1e-14)


@each(n=(2, 3, 4, 8))
def test_the_law_agrees_with_a_finer_grid(n: int) -> None:
    problem = distinct(1500, n, 7)
    plan = solve(problem, Release(tol=2e-2)).plan  # so loose that the release probabilities do alone
    assert isinstance(plan, Pick)
    rule, scheme = plan.rule, problem.scheme
    assert isinstance(rule, ReleaseRule)
    assert isinstance(scheme, WithoutReplacement)
    fine = Nodes.of(scheme.q, n, per_octave=2 * scheme.nodes.per_octave + 1, tail=1e-25)
    q, heavy, ends = scheme.q[rule.order], scheme.heavy[rule.order], np.append(rule.starts[1:], rule.order.size)
    number = int((ends - rule.starts).argmax())
    start, end = int(rule.starts[number]), int(ends[number])
    assert rule.released[start:end].min() < 1
    arrivals = start_arrivals(q, heavy, start, end, fine, *dirichlet_rule(n))
    released, gained, worth = np.empty(end - start), np.empty(end - start), np.empty(end - start)
    staying_worth(arrivals, rule.released[start:end], worth)
    release(arrivals, rule.law[start:end], worth, released, gained)  # solves for the probabilities that give the law
    value = np.divide(gained, released, out=np.zeros(end - start), where=released > 0)
    law = rule.released[start:end] * value + (1 - rule.released[start:end]) * worth
    assert np.abs(law - rule.law[start:end]).sum() <= 1e-11

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import ProblemError
from otspec.solvers.minimum_norm_point import Atom, Corral, Goal, OrderMixtureRule
from tests.each import each
from tests.instances import BY_PREFIXES, Instance
from tests.oracles import hit_function, mass_function


@each(instance=BY_PREFIXES)
def test_blocks_of_the_minorant_are_a_face_of_the_base_polytope(instance: Instance) -> None:
    problem = instance.problem.compact().problem
    goal = Goal.of(problem)
    assert goal.starts[0] == 0
    assert (np.diff(goal.starts) > 0).all()
    assert_allclose(np.sort(goal.order), problem.scheme.reachable())
    law = np.zeros(problem.vocab)
    law[goal.order] = goal.law
    excess = mass_function(law) - hit_function(problem.scheme)
    assert excess.max() <= 1e-12
    # Tight at the end of every block: what comes first in all orders tried gets all that it can.
    codes = np.cumsum(1 << goal.order)[np.append(goal.starts[1:], goal.order.size) - 1]
    assert_allclose(excess[codes], 0.0, rtol=0, atol=1e-12)


def test_the_rule_picks_the_first_in_a_drawn_order() -> None:
    rule = OrderMixtureRule(
        tokens=np.array([1, 2, 5]),
        ranks=np.array([[0, 1, 2], [2, 0, 1]]),
        laws=np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]]),
        shares=np.array([0.75, 0.25]),
        vocab=6,
    )
    assert_allclose(rule.weights(np.array([5, 1, 2])), [0.0, 0.75, 0.25])
    assert_allclose(rule.weights(np.array([5, 5, 1])), [0.25, 0.0, 0.75])
    assert_allclose(rule.proposal, [0.0, 0.4, 0.375, 0.0, 0.0, 0.225])
    for token in (0, 3):
        with pytest.raises(ProblemError, match=f"drafts hold {token}, whose draft probability is 0"):
            rule.weights(np.array([1, token, 2]))


def test_corral_finds_the_nearest_point_of_a_polytope() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(9, 4)) + 0.6
    corral = Corral(Atom(points[0]), points[0])
    for _ in range(60):
        point = points[int(np.argmin(points @ corral.nearest))]
        if not corral.descends(point):
            break
        corral.join(Atom(point), point)
    assert (corral.shares > 0).all()
    assert_allclose(
        sum(share * atom.law for share, atom in zip(corral.shares, corral.atoms, strict=True)), corral.nearest
    )
    # Optimal: no point lies below the hyperplane through the nearest one.
    assert (points @ corral.nearest).min() >= corral.nearest @ corral.nearest - 1e-12
    assert corral.nearest @ corral.nearest > 0.01  # the origin is outside, so this says something

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import IID, Independent
from otspec.solvers.luce.rule import LuceRule, laws_and_counts, luce_law
from tests.each import each
from tests.instances import SMALL, Instance
from tests.oracles import law_of_the_pick

DRAWN = [instance for instance in SMALL if isinstance(instance.problem.scheme, IID | Independent)][::4]


@each(spread=(0.0, 3.0, 30.0), instance=DRAWN)
def test_law_of_the_pick_is_that_of_enumeration(instance: Instance, spread: float) -> None:
    scheme = instance.problem.scheme
    assert isinstance(scheme, IID | Independent)
    odds = np.zeros(scheme.vocab)
    level = np.random.default_rng(3).normal(size=scheme.reachable().size) * spread
    odds[scheme.reachable()] = np.exp(level - level.max())
    rule = LuceRule(scheme, odds)
    assert_allclose(rule.proposal, law_of_the_pick(scheme, rule), rtol=0, atol=2e-14)


def test_quadrature_converges_as_it_should() -> None:
    laws, counts = laws_and_counts(Independent(np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])))
    odds = np.array([1.0, 0.1, 1e-3])
    fine, law, slope = np.empty((3, 3))
    luce_law(laws, counts, odds, 4, 26, fine, slope)
    errors = []
    for steps in (1, 2, 3):
        luce_law(laws, counts, odds, steps, 26, law, slope)
        errors.append(np.abs(law - fine).sum())
    assert 1e-8 < errors[0] < 1e-4
    assert errors[1] < 1e-10
    assert errors[2] < 1e-14


def test_slope_is_the_derivative_where_other_clocks_stay() -> None:
    # A token of tiny q hardly moves phi, so its whole derivative is the slope.
    q = np.array([1e-9, 0.4, 0.6 - 1e-9])
    laws, counts = laws_and_counts(IID(q, 3))
    level, shift = np.array([-0.5, 0.0, -2.0]), np.array([1e-4, 0.0, 0.0])
    low, high, law, slope, unused = np.empty((5, 3))
    luce_law(laws, counts, np.exp(level), 3, 26, law, slope)
    luce_law(laws, counts, np.exp(level + shift), 3, 26, high, unused)
    luce_law(laws, counts, np.exp(level - shift), 3, 26, low, unused)
    assert (high[0] - low[0]) / 2e-4 == pytest.approx(slope[0], rel=1e-6)

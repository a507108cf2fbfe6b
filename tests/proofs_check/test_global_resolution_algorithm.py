"""Figures that the remarks on Algorithm 1 and Appendix K quote."""

from itertools import product

import numpy as np
import pytest

from otspec import IID, Problem
from otspec.proofs_check.global_resolution import algorithm, appendices
from otspec.proofs_check.global_resolution.algorithm import Promise
from otspec.solvers import GlobalResolution
from otspec.solvers.global_resolution.plan import Resolution

STOP = next(claim for claim in algorithm.CLAIMS if claim.id == "gr-algorithm-1-stop")


def errors(stop: float) -> np.ndarray:
    """Errors of the output, in tau, at hostile points; 0 where alpha is no point to stop at."""
    promise = Promise(stop, error=1.0, acceptance=1e9)
    rng = np.random.default_rng(0)
    return np.array([promise.tightness(**promise.hostile(rng)) for _ in range(60)])


@pytest.mark.parametrize(("stop", "bound"), [(2.0, 10.0), (11 / 3, 15.0), (5.0, 19.0)])
def test_hostile_points_meet_the_stop_rule_and_come_near_the_bound(stop: float, bound: float) -> None:
    found = errors(stop)
    assert (found > 0).mean() > 0.7
    assert 0.85 * bound < found.max() <= bound


def test_the_solver_stops_where_the_counterexample_does() -> None:
    instance = STOP.counterexample
    assert instance is not None
    tau = instance["tau"]
    # The solver gives a token without target mass no part in its softmax, as the printed algorithm does.
    p = np.where(instance["p"] == 0, 1e-9, instance["p"])
    problem = Problem(p / p.sum(), IID(instance["q"], instance["n"]))
    printed = GlobalResolution(tau=tau, stop=5.0)(problem).plan
    assert isinstance(printed, Resolution)
    assert not printed.outer.alpha.any()
    assert not printed.inner.alpha.any()
    assert max(printed.outer.slope, printed.inner.slope) <= 5 * tau
    assert max(printed.outer.leak, printed.inner.leak) <= tau
    assert printed.deviation == pytest.approx(15.99 * tau, abs=0.01 * tau)
    assert 15 * (1 - STOP.margin_of(instance)) == pytest.approx(printed.deviation / tau)
    repaired = GlobalResolution(tau=tau)(problem).plan
    assert repaired.deviation < 5 * tau


def test_inclusion_and_exclusion_cancels() -> None:
    q, rare = np.array([0.998889, 1e-3, 1e-4, 1e-5, 1e-6]), np.arange(5) > 0
    exact = sum(q[list(drafts)].prod() for drafts in product(range(1, 5), repeat=4) if len(set(drafts)) == 4)
    assert exact == pytest.approx(24e-18)
    off = abs(appendices.inclusion_exclusion(q, 4, rare, ~rare) - exact)
    assert 2 * exact < off < 1e-15

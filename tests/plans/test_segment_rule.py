"""Serving tokens along the circle, against a maximum flow on the same draft sets, where an order can go wrong."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import Problem
from otspec.certificate import transport_network
from otspec.kernels.max_flow import min_cut
from otspec.plans.segment_rule import optimal_segment_rule
from otspec.schemes.systematic import lay_out
from tests import laws
from tests.each import each
from tests.laws import Kind

ROUNDING = 1e-13


UNRELATED = laws.dirichlet(0.1, 1.0, 10.0)
KINDS: dict[str, Kind] = {
    "unrelated": UNRELATED,
    "close": laws.close(UNRELATED, 1e-16, 1e-9, 0.1, 0.5),  # everything is nearly tight: work pushed aside travels far
    "ties": laws.grid(64),
}


@pytest.mark.parametrize("kind", KINDS)
@each(seed=range(150))
def test_agrees_with_the_maximum_flow_and_certifies_it(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vocab = int(rng.integers(3, 60))
    p, q = KINDS[kind](rng, vocab)
    n = int(rng.integers(1, 1 + min(7, int(np.count_nonzero(q)))))
    arcs = lay_out(q / q.sum(), n, rng.permutation(vocab))
    problem = Problem(p, arcs)
    rule, minimiser = optimal_segment_rule(problem.p, arcs)
    flow, _ = min_cut(transport_network(problem, arcs.draft_sets()))
    assert np.minimum(problem.p, rule.proposal).sum() == pytest.approx(flow.sum(), abs=ROUNDING)
    assert problem.bound(minimiser) == pytest.approx(flow.sum(), abs=ROUNDING)
    assert_allclose(rule.shares.sum(axis=1), 1.0, rtol=0, atol=ROUNDING)
    assert rule.shares.min() >= 0


@pytest.mark.parametrize(
    ("p", "acceptance"),
    [
        # The first turn serves token 1 behind 0.8 only; the second what it still wants before 0.2 as well.
        ((0.3, 0.4, 0.3, 0.0), 1.0),
        ((0.3, 0.3, 0.2, 0.2), 0.8),
        # It cannot get more than its arc is long.
        ((0.2, 0.5, 0.1, 0.2), 0.7),
        # Tokens whose arcs end before its own go first, and lose nothing to it.
        ((0.5, 0.1, 0.4, 0.0), 1.0),
        ((0.8, 0.2, 0.0, 0.0), 1.0),
        ((0.9, 0.1, 0.0, 0.0), 0.9),
    ],
)
def test_an_arc_that_crosses_the_start(p: tuple[float, ...], acceptance: float) -> None:
    scheme = lay_out(np.array([0.4, 0.2, 0.4, 0.0]), 2, np.arange(4))  # up to 0.8, from there to 1.2, from there to 2
    problem = Problem(np.array(p), scheme)
    rule, minimiser = optimal_segment_rule(problem.p, scheme)
    assert np.minimum(problem.p, rule.proposal).sum() == pytest.approx(acceptance, abs=ROUNDING)
    assert problem.bound(minimiser) == pytest.approx(acceptance, abs=ROUNDING)


def test_tokens_drafted_always_take_what_is_left() -> None:
    scheme = lay_out(np.array([0.8, 0.1, 0.1]), 2, np.arange(3))
    rule, minimiser = optimal_segment_rule(np.array([0.5, 0.5, 0.0]), scheme)
    assert_allclose(rule.proposal, [0.5, 0.5, 0.0], rtol=0, atol=1e-15)
    assert minimiser.size == 0
    # Token 1 is wanted more than its arc can serve; token 0 wants less than what is left.
    rule, minimiser = optimal_segment_rule(np.array([0.2, 0.7, 0.1]), scheme)
    assert np.minimum([0.2, 0.7, 0.1], rule.proposal).sum() == pytest.approx(0.8)
    assert minimiser.tolist() == [0, 2]

"""Closed forms of the preprints' claims against programs that know none of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize

from otspec.laws import FloatArray, IntArray
from otspec.proofs_check.preprints.acceptance import RULES, accepted
from otspec.proofs_check.preprints.levelling import WAYS, apart, distance, levelled

LAWS = [np.array(law) for law in ([0.4, 0.3, 0.2, 0.1], [0.3, 0.3, 0.2, 0.15, 0.05], [0.9, 0.06, 0.04])]


def nearest(p: FloatArray, above: IntArray, below: IntArray, way: str) -> float:
    """The least divergence of laws under which tokens `above` are at least as likely as those `below`, pair by pair."""
    order = np.eye(p.size)[above] - np.eye(p.size)[below]
    constraints = [LinearConstraint(order, lb=0.0), LinearConstraint(np.ones((1, p.size)), 1.0, 1.0)]
    found = minimize(
        lambda q: apart(p, np.maximum(q, 1e-12), way),
        np.full(p.size, 1 / p.size),
        bounds=[(1e-12, 1.0)] * p.size,
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )
    return float(found.fun)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rule", RULES)
def test_no_rejected_law_is_nearer_than_the_levelled_one(rule: str, way: str) -> None:
    """The convex program of every rejected token; the nearest of them is the closed form."""
    for p in LAWS:
        every = np.arange(p.size)
        refused = np.flatnonzero(~accepted(p, rule, 0.12, 2))
        programs = [nearest(p, np.full(p.size, token), every, way) for token in refused]
        hub = int(refused[p[refused].argmax()])
        assert distance(p, levelled(p, hub, every, way), way) == pytest.approx(min(programs), abs=1e-7)


@pytest.mark.parametrize("way", WAYS)
def test_the_top_token_is_lowered_to_the_next_ones(way: str) -> None:
    for p in LAWS:
        for m in range(1, p.size):
            leaves = np.arange(1, m + 1)
            closed = distance(p, levelled(p, 0, leaves, way, rises=False), way)
            assert closed == pytest.approx(nearest(p, leaves, np.zeros(m, dtype=int), way), abs=1e-7)

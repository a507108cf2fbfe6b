"""Sections 4, 5.2 and 5.3: canonical decomposition, maximum flow, complementary slackness."""

from __future__ import annotations

import numpy as np

from otspec.certificate import optimum
from otspec.front_door import solve
from otspec.laws import FloatArray, IntArray
from otspec.plans import Coupling, canonical_decomposition
from otspec.proofs_check.claim import Claim
from otspec.proofs_check.instances import table, table_problem
from otspec.solvers import MaxFlow, Slackness


def _canonical(p: FloatArray, drafts: IntArray, law: FloatArray) -> float:
    problem = table_problem(p, drafts, law)
    coupling, _ = MaxFlow()(problem)
    assert isinstance(coupling, Coupling)
    return -abs(canonical_decomposition(coupling).acceptance - optimum(problem).acceptance)


def _slackness(p: FloatArray, drafts: IntArray, law: FloatArray) -> float:
    plan = solve(table_problem(p, drafts, law), Slackness(), strict=False).plan
    return -np.inf if plan is None else -max(abs(plan.gap), plan.deviation)


CLAIMS = (
    Claim(
        "gr-theorem-4.1",
        "An optimal coupling, normalised per draft set, is an optimal importance weight beta.",
        "thomas2025global, Theorem 4.1",
        table,
        _canonical,
    ),
    Claim(
        "gr-theorem-5.1",
        "Solutions of the outer and the inner system, joined, are an optimal coupling.",
        "thomas2025global, Theorem 5.1",
        table,
        _slackness,
    ),
)

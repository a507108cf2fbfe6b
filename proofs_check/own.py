"""Statements on which this package stands."""

from __future__ import annotations

import numpy as np

from otspec.laws import FloatArray, IntArray
from otspec.proofs_check.claim import Claim, Source
from otspec.proofs_check.instances import subset_masses, table, table_problem


def _submodularity(p: FloatArray, drafts: IntArray, law: FloatArray) -> float:
    _, inside = subset_masses(table_problem(p, drafts, law))
    hit = 1.0 - inside[::-1]  # f(A) = 1 - P(all drafts outside A)
    a, b = np.meshgrid(np.arange(hit.size), np.arange(hit.size))
    return float((hit[a] + hit[b] - hit[a | b] - hit[a & b]).min())


SOURCE = Source(
    "otspec: statements of our own",
    "otspec",
    (
        Claim(
            "hit-submodular",
            "The hit function f(A) = P(some draft in A) is submodular, whatever the law of the drafts.",
            "otspec; thomas2025global, Theorem C.1 has it for independent drafts",
            table,
            _submodularity,
            remark="P(all drafts in H) is a mixture of indicators of A in H over draft sets A, each supermodular.",
        ),
    ),
)

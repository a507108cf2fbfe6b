"""Whether a rule that was chosen by name is lossless."""

from __future__ import annotations

from typing import Any

import numpy as np

from otspec.problem import Problem
from otspec.schemes import IID
from otspec.solving import solve
from otspec.tolerances import TOL
from otspec.verification.evaluation.synthetic import synthetic
from otspec.verification.reference.enumeration import path_law
from otspec.verification.rules.catalogue import BY_PLAN, JOINT
from otspec.verification.rules.protocol import PathVerifier


def is_lossless(named: Any) -> bool:
    """Whether what `rule` returns is lossless to rounding: solvers that promise less are tried on a small problem.

    A joint rule of one's own is tried on a small model, too, if it is a whole `PathVerifier`, and is lossy if not.
    """
    if hasattr(named, "verify"):
        return isinstance(named, PathVerifier) and path_law(named, synthetic("tiny", vocab=2), 2, 2).deviation < TOL
    chain = [named] if isinstance(named, str) else named or []
    return not any(_may_deviate(name) for name in chain if name not in (*JOINT, BY_PLAN))


def _may_deviate(solver: str) -> bool:
    plan = solve(Problem(np.array([0.5, 0.3, 0.2]), IID(np.array([0.2, 0.2, 0.6]), 2)), solver, strict=False).plan
    return plan is not None and plan.max_deviation > 0

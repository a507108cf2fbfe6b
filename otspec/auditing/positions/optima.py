"""The largest acceptance of any lossless rule, alpha*, with which an audit compares the acceptance of a rule."""

from __future__ import annotations

from otspec.auditing.positions.cases import PositionCase
from otspec.certificate import upper_bound
from otspec.problem import Problem
from otspec.schemes import IID, DraftScheme


def optimum_of(case: PositionCase) -> float | None:
    """alpha* of the drafts, or an upper bound where it would take long; None if their law is not known."""
    return None if case.drafted is None else _bound(case, case.drafted)


def optimum_iid(case: PositionCase) -> float | None:
    """alpha* of as many i.i.d. drafts; None where each draft has a law of its own."""
    return _bound(case, IID(case.q, case.n)) if case.q.ndim == 1 else None


def _bound(case: PositionCase, scheme: DraftScheme) -> float:
    return min(upper_bound(Problem(case.p, scheme)), 1.0)

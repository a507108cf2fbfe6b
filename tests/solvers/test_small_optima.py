"""OPTIMAL says something where hardly anything can be accepted: laws that meet in their tails alone."""

from fractions import Fraction
from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from otspec import IID, Problem, Status, solve
from otspec.tolerances import RELATIVE_TOL, ROUNDING


def exact_optimum(p: np.ndarray, q: np.ndarray, n: int) -> float:
    """alpha* = min over A of P(some draft lies in A) + p(V without A), in rational numbers."""
    target, draft = ([Fraction(float(x)) for x in law] for law in (p, q))
    tokens = range(len(target))
    subsets = (set(some) for size in range(len(target) + 1) for some in combinations(tokens, size))
    total = sum(draft)
    return float(
        min(
            1
            - (sum(draft[x] for x in tokens if x not in some) / total) ** n
            + sum(target)
            - sum(target[x] for x in some)
            for some in subsets
        )
    )


@st.composite
def distant_laws(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """Two laws of a few tokens with tails down to 1e-14 and zeros, whose likely tokens differ in most cases."""
    size = draw(st.integers(2, 5))
    exponents = st.one_of(st.none(), st.floats(0, 14))
    laws = []
    for likely in (0, size - 1):
        weights = np.array(
            [0.0 if e is None else 10**-e for e in draw(st.lists(exponents, min_size=size, max_size=size))]
        )
        weights[likely] = 1.0
        laws.append(weights / weights.sum())
    return laws[0], laws[1], draw(st.integers(1, 3))


def check(p: np.ndarray, q: np.ndarray, n: int, solver: str) -> Status:
    """Whatever is OPTIMAL accepts what can be accepted, but for the share that `RELATIVE_TOL` grants."""
    result = solve(Problem(p, IID(q, n)), solver, strict=False)
    if result.status is Status.OPTIMAL:
        assert result.plan is not None
        assert result.plan.acceptance >= (1 - 2 * RELATIVE_TOL) * exact_optimum(p, q, n) - 2 * ROUNDING
    return result.status


@settings(max_examples=60, derandomize=True, deadline=None)
@given(distant_laws())
def test_optimal_is_relative_too(laws: tuple[np.ndarray, np.ndarray, int]) -> None:
    for solver in ("kseq", "rrs", "max_flow"):
        check(*laws, solver)
    assert check(*laws, "interval") is Status.OPTIMAL


def test_a_plan_that_leaves_a_quarter_of_very_little_is_not_optimal() -> None:
    p = np.array([0.999, 1e-3, 1e-9, 1e-10, 1e-12])
    p /= p.sum()
    result = solve(Problem(p, IID(p[::-1].copy(), 2)), "single", strict=False)
    assert result.plan is not None
    assert 1e-10 < result.plan.gap < 1e-9
    assert result.status is Status.FEASIBLE
    assert "of the bound" in result.message

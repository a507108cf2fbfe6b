"""What solvers refuse, and when they may say OPTIMAL."""

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otspec import (
    IID,
    DraftScheme,
    Greedy,
    Independent,
    Problem,
    ProblemError,
    Status,
    Table,
    WithoutReplacement,
    available,
    solve,
)
from otspec.catalogue import get
from otspec.solver import TupleSolver
from otspec.tolerances import RELATIVE_TOL, ROUNDING
from tests.each import each
from tests.instances import P4, Q4
from tests.oracles import optimal_acceptance
from tests.strategies import laws, some

TUPLE = Table(np.array([[0, 1]]), np.ones(1), 4)

OTHERS: dict[str, tuple[DraftScheme, str]] = {
    "closed_form": (IID(Q4, 2), "not 2 drafts of IID"),
    "interval": (TUPLE, "takes i.i.d. drafts"),
    "distinct_drafters": (TUPLE, "not Table"),
    "global_resolution": (Independent([Q4, Q4, P4]), "takes two independent drafts from laws of their own, not 3"),
    "without_replacement": (IID(Q4, 2), "takes drafts without replacement (otspec.WithoutReplacement), not IID"),
    "rrs": (WithoutReplacement(Q4, 2), "rrs is lossless for independent drafts only, not for WithoutReplacement"),
    "rsd": (IID(Q4, 2), "rsd is lossless for drafts without replacement only, not for IID"),
    "kseq": (TUPLE, "kseq is lossless for i.i.d. drafts only, not for Table"),
    "spechub": (IID(Q4, 2), "spechub takes hub pairs (otspec.HubPairs), not IID"),
}


@each(name=list(OTHERS))
def test_drafts_of_another_law_are_refused_with_a_reason(name: str) -> None:
    scheme, message = OTHERS[name]
    result = solve(Problem(P4, scheme), name, strict=False)
    assert result.status is Status.UNSUPPORTED
    assert message in result.message


P3, HALVES = np.array([0.5, 0.3, 0.2]), IID([0.5, 0.5, 0.0], 2)
DISTINCT = WithoutReplacement([0.5, 0.3, 0.2, 0.0], 2)
ONE_SIDED = Independent([[1.0, 0.0, 0.0], [0.5, 0.25, 0.25]])
TINY = Problem([0.5, 0.5], IID([1e-300, 1.0], 2))  # the pair (0, 0) has probability 1e-600, which is 0 in float64
IMPOSSIBLE: dict[str, tuple[Problem, list[int], str, tuple[str, ...]]] = {
    "never drafted": (Problem(P3, HALVES), [0, 2], "probability (is )?0", ()),
    "not by the first": (Problem(P3, ONE_SIDED), [1, 0], "probability (is )?0", ("distinct_drafters",)),
    "underflow": (TINY, [0, 0], "have probability 0", ("max_flow", "slackness")),
    "not by any": (Problem(P4, DISTINCT), [0, 3], "hold 3, whose draft probability is 0", ("without_replacement",)),
    "twice": (Problem(P4, DISTINCT), [1, 1], r"drafts \[1, 1\] hold a token twice", ("without_replacement",)),
    "not the likeliest": (Problem(P4, Greedy(Q4, 3)), [2, 3, 0], "probability 0 under the scheme", ("closed_form",)),
    "second left out": (Problem(P4, Greedy(Q4, 3)), [3, 1, 0], "probability 0 under the scheme", ("closed_form",)),
    "too many": (Problem(P3, HALVES), [0, 1, 1], "n = 2", ()),
    "too few": (Problem(P3, HALVES), [0], "n = 2", ()),
    "beyond": (Problem(P3, HALVES), [0, 3], "hold 3", ()),
    "below": (Problem(P3, HALVES), [0, -1], "hold -1", ()),
}
"""A problem, drafts that it cannot have, what is said of them, and by which solvers: all that take the problem, if none
is named, but `naive`, which looks at no probability of drafts."""


@each(info=available(), name=list(IMPOSSIBLE))
def test_drafts_that_cannot_be_are_refused(info: Any, name: str) -> None:
    problem, drafts, message, only = IMPOSSIBLE[name]
    solver = get(info.name)
    if (
        info.missing
        or solver.supports(problem) is not None
        or (info.name not in only if only else info.name == "naive")
    ):
        return
    plan = solve(problem, solver, strict=False).plan
    assert plan is not None
    request: list[Any] = [plan.conditional, lambda some: plan.sample(some, 0)]
    if isinstance(solver, TupleSolver):
        request.append(functools.partial(solver.conditional, problem))
    for ask in request:
        with pytest.raises(ProblemError, match=message):
            ask(np.array(drafts))


def check(problem: Problem, solver: str) -> Status:
    """Whatever is OPTIMAL accepts what can be accepted, but for the share that `RELATIVE_TOL` grants."""
    result = solve(problem, solver, strict=False)
    if result.status is Status.OPTIMAL:
        assert result.plan is not None
        assert result.plan.acceptance >= (1 - 2 * RELATIVE_TOL) * optimal_acceptance(problem) - 2 * ROUNDING
    return result.status


@some
@given(data=st.data(), vocab=st.integers(2, 5), n=st.integers(1, 3))
def test_optimal_is_relative_too(data: st.DataObject, vocab: int, n: int) -> None:
    p, q = (data.draw(laws(vocab, likely)) for likely in (0, vocab - 1))
    problem = Problem(p, IID(q, n))
    for solver in ("kseq", "rrs", "max_flow"):
        check(problem, solver)
    assert check(problem, "interval") is Status.OPTIMAL


def test_a_plan_that_leaves_a_quarter_of_very_little_is_not_optimal() -> None:
    p = np.array([0.999, 1e-3, 1e-9, 1e-10, 1e-12])
    p /= p.sum()
    result = solve(Problem(p, IID(p[::-1].copy(), 2)), "single", strict=False)
    assert result.plan is not None
    assert 1e-10 < result.plan.gap < 1e-9
    assert result.status is Status.FEASIBLE
    assert f"a gap of {result.plan.gap / result.plan.bound:.2g} of the bound" in result.message


@each(solver=("submodular", "without_replacement"), little=(1e-6, 2e-11))
def test_a_search_goes_on_where_little_can_be_accepted(solver: str, little: float) -> None:
    problem = Problem([little, 1 - 2 * little, little], WithoutReplacement([1e-9, 0.0, 1 - 1e-9], 2))
    assert solve(problem, solver).status is Status.OPTIMAL

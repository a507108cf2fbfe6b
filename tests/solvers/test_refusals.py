"""What solvers refuse: drafts of other laws, drafts that cannot be, and settings out of range."""

import functools
from typing import Any

import numpy as np
import pytest

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
from otspec.solvers.max_flow.engines import ENGINES, PACKAGES, FlowSolver
from tests.each import each
from tests.instances import P4, Q4

TUPLE = Table(np.array([[0, 1]]), np.ones(1), 4)

OTHERS: dict[str, tuple[DraftScheme, str]] = {
    "closed_form": (IID(Q4, 2), "not 2 drafts of IID"),
    "interval": (TUPLE, "takes i.i.d. drafts"),
    "luce": (TUPLE, "not Table"),
    "global_resolution": (Independent([Q4, Q4, P4]), "takes two independent drafts from laws of their own, not 3"),
    "release": (IID(Q4, 2), "release takes drafts without replacement (otspec.WithoutReplacement), not IID"),
    "rrs": (
        WithoutReplacement(Q4, 2),
        "rrs is lossless for independent drafts only, not for WithoutReplacement: each test takes the draft for a "
        "fresh draw from q; pass otspec.IID, choose another solver, or measure the bias with rrs:allow_biased=true",
    ),
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


def test_the_minimum_norm_point_takes_any_law() -> None:
    tuples = np.stack(np.divmod(np.arange(16), 4), axis=1)
    for scheme in (IID(Q4, 3), WithoutReplacement(Q4, 3), Table(tuples, np.full(16, 1 / 16), 4)):
        assert get("polymatroid").supports(Problem(P4, scheme)) is None


P3, HALVES = np.array([0.5, 0.3, 0.2]), IID([0.5, 0.5, 0.0], 2)
DISTINCT = WithoutReplacement([0.5, 0.3, 0.2, 0.0], 2)
ONE_SIDED = Independent([[1.0, 0.0, 0.0], [0.5, 0.25, 0.25]])
TINY = Problem([0.5, 0.5], IID([1e-300, 1.0], 2))  # the pair (0, 0) has probability 1e-600, which is 0 in float64
IMPOSSIBLE: dict[str, tuple[Problem, list[int], str, tuple[str, ...]]] = {
    "never drafted": (Problem(P3, HALVES), [0, 2], "probability (is )?0", ()),
    "never drafted first": (Problem(P3, HALVES), [2, 0], "probability (is )?0", ()),
    "not by the first": (Problem(P3, ONE_SIDED), [1, 0], "probability (is )?0", ("luce",)),
    "underflow": (TINY, [0, 0], "have probability 0", ("max_flow", "slackness")),
    "not by any": (Problem(P4, DISTINCT), [0, 3], "hold 3, whose draft probability is 0", ("release",)),
    "twice": (Problem(P4, DISTINCT), [1, 1], r"drafts \[1, 1\] hold a token twice", ("release",)),
    "not the likeliest": (Problem(P4, Greedy(Q4, 3)), [2, 3, 0], "probability 0 under the scheme", ("closed_form",)),
    "likeliest again": (Problem(P4, Greedy(Q4, 3)), [3, 2, 3], "probability 0 under the scheme", ("closed_form",)),
    "second twice": (Problem(P4, Greedy(Q4, 3)), [3, 2, 2], "probability 0 under the scheme", ("closed_form",)),
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
    asked: list[Any] = [plan.conditional, lambda some: plan.sample(some, 0)]
    if isinstance(solver, TupleSolver):
        asked.append(functools.partial(solver.conditional, problem))
    for ask in asked:
        with pytest.raises(ProblemError, match=message):
            ask(np.array(drafts))


def test_every_engine_says_what_it_needs() -> None:
    assert PACKAGES.keys() == ENGINES.keys()
    assert PACKAGES["numba"] == ()
    for name in ENGINES:
        assert FlowSolver(engine=name).packages == PACKAGES[name]

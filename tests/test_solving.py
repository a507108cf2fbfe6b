from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import otspec
from otspec import IID, Independent, Problem, Status, WithoutReplacement, optimum, solve
from otspec.plans import Coupling
from otspec.solver import Solution, Stopped
from otspec.solving import default_solver
from otspec.tolerances import TOL
from tests.each import each
from tests.instances import P4, Q4
from tests.spellings import exact_spellings, installed_or_skipped

PROBLEM = Problem(P4, IID(Q4, 2))


def coupling(share: float, scale: float = 1.0) -> Coupling:
    """The optimal plan with a share of its values; a `scale` off 1 makes its output law wrong."""
    sets = PROBLEM.scheme.draft_sets()
    plan = solve(PROBLEM, "max_flow").plan
    assert isinstance(plan, Coupling)
    values = plan.values * share
    return Coupling(PROBLEM, sets, sets.indptr, sets.cells, values * scale, optimum(PROBLEM).bound)


@dataclass(frozen=True)
class Canned:
    """A solver that returns a given plan, or stops."""

    plan: otspec.Plan | None = None
    reason: str | None = None
    tol: float = TOL

    name: ClassVar[str] = "canned"
    exact: ClassVar[bool] = True
    schemes: ClassVar[str] = "any"
    variants: ClassVar[tuple[str, ...]] = ()
    packages: ClassVar[tuple[str, ...]] = ()

    def supports(self, problem: Problem) -> str | None:
        return self.reason

    def __call__(self, problem: Problem) -> Solution:
        if self.plan is None:
            raise Stopped(Status.LIMIT, "enough is enough")
        return Solution(self.plan, {"things": 7})


class Heuristic(Canned):
    """A canned solver that promises no optimum."""

    exact: ClassVar[bool] = False


def test_a_name_an_instance_and_settings_are_the_same_to_it_and_stats_say_what_it_took() -> None:
    result = solve(PROBLEM, Canned(coupling(1.0), tol=1e-7))
    by_name = solve(PROBLEM, "max_flow:engine=numba")
    assert result.status is by_name.status is Status.OPTIMAL
    assert result.plan.acceptance == pytest.approx(by_name.plan.acceptance, abs=1e-15)
    stats = result.stats
    assert (stats.solver, stats.settings["tol"], stats.sizes) == ("canned", 1e-7, {"things": 7})
    assert stats.wall_s > 0


class Promising(Coupling):
    """A plan that owns up to a deviation of at most 0.1."""

    max_deviation = 0.1


def promising(scale: float) -> Promising:
    """Its output law is off by more the further the scale is from 1."""
    plan = coupling(1.0, scale)
    return Promising(PROBLEM, plan.sets, plan.indptr, plan.columns, plan.values, plan.bound)


def too_good() -> Coupling:
    plan = coupling(1.0)
    return Coupling(PROBLEM, plan.sets, plan.indptr, plan.columns, plan.values, plan.bound - 1e-3)


SHORT, NEARLY = coupling(0.5), coupling(1 - 1e-6)
JUDGED: dict[str, tuple[Canned, Status, bool, str]] = {
    "optimal": (Canned(coupling(1.0)), Status.OPTIMAL, True, ""),
    "short of the bound": (Canned(SHORT), Status.FEASIBLE, False, f"gap {SHORT.gap:.2g}"),
    "short, and promised no optimum": (Heuristic(SHORT), Status.FEASIBLE, True, ""),
    "short by more than tol": (Canned(NEARLY, tol=1e-9), Status.FEASIBLE, False, "gap"),
    "short by less than tol": (Canned(NEARLY, tol=1e-5), Status.OPTIMAL, True, ""),
    "wrong": (Canned(coupling(1.0, 1.5)), Status.NUMERICAL, False, ""),
    "no number": (Canned(coupling(1.0, np.nan)), Status.NUMERICAL, False, ""),
    "above its bound": (Canned(too_good()), Status.NUMERICAL, False, ""),
    "lossy as promised": (Heuristic(promising(1.02)), Status.LOSSY, True, ""),
    "lossier than promised": (Heuristic(promising(1.5)), Status.NUMERICAL, False, ""),
    "stopped": (Canned(), Status.LIMIT, False, "enough is enough"),
    "unsupported": (Canned(coupling(1.0), reason="wrong scheme"), Status.UNSUPPORTED, False, "wrong scheme"),
}
"""Solvers, the status of what they hand over, whether that is success, and what is said of it."""


@each(case=JUDGED)
def test_plans_are_judged_by_their_figures(case: tuple[Canned, Status, bool, str]) -> None:
    solver, status, success, message = case
    result = solve(PROBLEM, solver, strict=False)
    assert (result.status, result.success) == (status, success)
    assert message in result.message
    kept = status in (Status.OPTIMAL, Status.FEASIBLE, Status.LOSSY)
    assert result.plan is (solver.plan if kept else None)
    if success:
        assert solve(PROBLEM, solver).plan is solver.plan
    else:
        with pytest.raises(otspec.SolveError, match=f"canned: {status.name}") as caught:
            solve(PROBLEM, solver)
        assert caught.value.result.plan is result.plan


def test_a_chain_takes_the_first_that_delivers_and_records_what_failed() -> None:
    result = solve(PROBLEM, [Canned(), Canned(reason="wrong scheme"), Heuristic(coupling(0.5)), "max_flow"])
    assert result.status is Status.FEASIBLE
    assert result.success
    assert [one.status for one in result.tried] == [Status.LIMIT, Status.UNSUPPORTED]
    assert all(one.plan is None and one.tried == () for one in result.tried)
    assert solve(PROBLEM, ["max_flow", Canned()]).tried == ()


def test_a_chain_that_never_delivers_reports_every_attempt() -> None:
    with pytest.raises(otspec.SolveError, match="canned: LIMIT, enough is enough; canned: FEASIBLE, acceptance"):
        solve(PROBLEM, [Canned(), Canned(coupling(0.5))])
    result = solve(PROBLEM, [Canned(), Canned(coupling(0.5))], strict=False)
    assert (result.status, result.success, len(result.tried)) == (Status.FEASIBLE, False, 1)


def test_a_chain_is_spelled_right_before_any_link_is_tried() -> None:
    for spelling in (["max_flow", "simplex"], "simplex"):
        with pytest.raises(otspec.UnknownSolver, match="no solver 'simplex'; known: "):
            solve(PROBLEM, spelling, strict=False)


def guarded() -> list[Any]:
    """The exact solvers that list draft sets, and so need a size guard."""
    names = {info.name for info in otspec.available() if "max_cells" in info.settings}
    return installed_or_skipped([one for one in exact_spellings() if one.partition(":")[0] in names])


@pytest.mark.parametrize("spelling", guarded())
@each(
    scheme={
        "IID": IID(np.full(1000, 1e-3), 8),  # some 1e19 sets: listing them would not end
        "Independent": Independent(np.full((8, 1000), 1e-3)),  # 1e24 tuples
        "Greedy": otspec.Greedy(np.full(300_000, 1 / 300_000), 20),  # 299 981 sets of 20
    }
)
def test_size_guard_ends_in_limit_before_anything_is_built(spelling: str, scheme: otspec.DraftScheme) -> None:
    result = solve(Problem(np.full(scheme.vocab, 1 / scheme.vocab), scheme), spelling, strict=False)
    assert (result.status, result.plan) == (Status.LIMIT, None)
    assert "exceed max_cells = " in result.message
    assert "truncate the drafts, or raise max_cells" in result.message


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("lp", r"highspy is not installed and is needed here: pip install \"otspec-toolkit\[solvers\]\""),
        ("slackness:engine=graph_tool", "graph_tool is not installed .* conda"),
        ("canonical", r"cvxpy is not installed .* pip install \"otspec-toolkit\[convex\]\""),
    ],
)
def test_missing_extra_says_how_to_install_it(spelling: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otspec.extras.installed", lambda package: False)
    with pytest.raises(otspec.MissingExtra, match=message):
        solve(PROBLEM, spelling, strict=False)
    # Our own engine needs none.
    assert solve(PROBLEM, "max_flow").status is Status.OPTIMAL
    assert solve(PROBLEM, "slackness").status is Status.OPTIMAL


@pytest.mark.parametrize(
    ("scheme", "solver"),
    [
        (IID(Q4, 2), "interval"),
        (IID(Q4, 1), "interval"),
        (otspec.Greedy(Q4, 2), "closed_form"),
        (otspec.TopK(Q4, 2).compact(), "closed_form"),
        (otspec.HubPairs(Q4), "spechub"),
        (Independent(np.stack((P4, Q4))), "distinct_drafters"),
        (WithoutReplacement(Q4, 2), "without_replacement"),
        (WithoutReplacement(Q4, 1), "closed_form"),
        (Independent(Q4[None]), "closed_form"),
        (otspec.Table(np.array([[0, 1]]), np.ones(1), 4), "max_flow"),
    ],
)
def test_the_default_is_the_solver_of_choice_for_the_scheme(scheme: otspec.DraftScheme, solver: str) -> None:
    p = np.append(P4, np.zeros(scheme.vocab))[: scheme.vocab]
    problem = Problem(p / p.sum(), scheme)
    assert default_solver(problem) == solver
    assert solve(problem).stats.solver == solver
    assert solve(problem).status is Status.OPTIMAL


def test_by_default_every_law_is_solved() -> None:
    """No finite weights solve two drafts that may both be a token that then has to be put out: another solver does."""
    rng, tried = np.random.default_rng(0), []
    for _ in range(40):
        vocab = int(rng.integers(2, 6))
        qs = rng.multinomial(4, np.ones(vocab) / vocab, size=2) / 4
        result = solve(Problem(rng.multinomial(8, np.ones(vocab) / vocab) / 8, Independent(qs)))
        assert result.status is Status.OPTIMAL
        tried += [one.stats.solver for one in result.tried]
    assert len(tried) > 1
    assert set(tried) == {"distinct_drafters"}


def in_a_chain(monkeypatch: pytest.MonkeyPatch, *links: Canned) -> None:
    """These solvers are tried by default."""
    monkeypatch.setattr("otspec.solving.default_chain", lambda problem: links)


def test_by_default_the_plan_of_least_gap_is_delivered_where_none_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    near, nearer = coupling(0.5), coupling(0.75)
    in_a_chain(monkeypatch, Canned(near), Canned(), Canned(nearer), Canned(near))
    result = solve(PROBLEM)
    assert (result.status, result.success, result.plan) == (Status.FEASIBLE, True, nearer)
    assert result.message.endswith("and no solver came nearer")
    assert [one.status for one in result.tried] == [Status.FEASIBLE, Status.LIMIT, Status.FEASIBLE]


def test_by_default_what_misses_its_tolerance_by_little_is_delivered_at_once_and_what_is_lossy_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = coupling(1 - 1e-7)
    in_a_chain(monkeypatch, Canned(plan), Canned(coupling(1.0)))
    result = solve(PROBLEM)
    assert (result.status, result.success, result.plan) == (Status.FEASIBLE, True, plan)
    in_a_chain(monkeypatch, Canned(promising(1.02)), Canned())
    with pytest.raises(otspec.SolveError, match=r"canned: LOSSY, .*; canned: LIMIT"):
        solve(PROBLEM)


def test_by_default_a_law_without_a_solver_of_its_own_is_solved_at_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otspec.solving.BEST", ())
    qs = np.random.default_rng(0).dirichlet(np.full(300, 0.05), size=4)
    result = solve(Problem(qs.mean(axis=0), Independent(qs)))  # some 10**9 tuples
    assert (result.stats.solver, result.success) == ("submodular", True)
    assert [one.status for one in result.tried] == [Status.LIMIT]

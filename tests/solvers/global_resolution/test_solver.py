import numpy as np
import pytest
from numpy.testing import assert_allclose

from otspec import IID, Independent, Problem, ProblemError, Status, optimum, solve
from otspec.solver import Stopped
from otspec.solvers import GlobalResolution
from otspec.solvers.global_resolution.plan import Resolution
from otspec.solvers.global_resolution.systems import Split
from tests.each import each
from tests.instances import P4, Q4, VARIED, Instance, peaked_problem
from tests.oracles import check_plan, optimal_acceptance

VARIED_DRAWN = [instance for instance in VARIED if GlobalResolution().supports(instance.problem) is None]


def resolved(problem: Problem, tau: float, max_tokens: int = 0, max_sets: int = 20_000) -> Resolution:
    """The plan, with as many iterations as it takes."""
    solver = GlobalResolution(tau=tau, max_tokens=max_tokens, max_iterations=2000, max_sets=max_sets)
    result = solve(problem, solver)
    assert isinstance(result.plan, Resolution)
    return result.plan


@pytest.mark.parametrize("tau", [1e-2, 1e-3, 1e-4])
@each(instance=VARIED_DRAWN)
def test_output_and_acceptance_are_within_the_published_guarantee(instance: Instance, tau: float) -> None:
    problem = instance.problem
    plan = resolved(problem, tau=tau)
    found = check_plan(plan, off=plan.max_deviation)
    assert plan.max_deviation <= 13 * tau + 1e-12
    assert abs(found.membership - optimal_acceptance(problem)) <= 5 * tau + 1e-12  # the paper claims 10
    assert plan.deviation == pytest.approx(np.abs(found.output - problem.p).sum(), abs=1e-12)
    assert plan.acceptance == pytest.approx(found.membership, abs=1e-12)


@each(n=(2, 3, 4))
def test_guarantee_where_tokens_are_dropped(n: int) -> None:
    tau, dropping = 1e-2, 0
    for seed in range(6):
        problem = peaked_problem(25, n, seed)
        plan = resolved(problem, tau, max_tokens=25)
        exact = plan.deviation
        assert exact <= plan.max_deviation <= 13 * tau
        assert exact < plan.max_deviation  # else it was not computed
        assert abs(plan.acceptance - optimum(problem).acceptance) <= 5 * tau
        dropping += plan.outer.leak > 0 or plan.inner.leak > 0
    assert dropping >= 3


@each(instance=VARIED_DRAWN)
def test_what_cannot_be_listed_is_bounded(instance: Instance) -> None:
    listed, bounded = resolved(instance.problem, tau=1e-2), resolved(instance.problem, tau=1e-2, max_sets=0)
    if not listed.outer.alpha.size + listed.inner.alpha.size:  # no token can be served: there is nothing to list
        assert bounded.deviation == listed.deviation
        return
    assert bounded.deviation == bounded.max_deviation >= listed.deviation - 1e-15
    assert listed.acceptance - 1e-2 <= bounded.acceptance <= listed.acceptance + 1e-15
    with pytest.raises(ProblemError, match="draft sets exceed max_sets = 0; truncate the drafts, raise max_sets"):
        bounded.output_law()


@each(instance=VARIED_DRAWN[::2])
def test_one_tuple_has_the_law_of_the_full_plan(instance: Instance) -> None:
    problem, solver = instance.problem, GlobalResolution(tau=1e-2, max_iterations=2000)
    plan = solve(problem, solver).plan
    for drafts in problem.scheme.support().drafts[:20]:
        one = solver.conditional(problem, drafts)
        assert_allclose(one, plan.conditional(drafts), rtol=0, atol=1e-14)
        assert not one[problem.p == 0].any()


def test_one_tuple_needs_one_system() -> None:
    # H* = {2, 3} and no variable is allowed: the outer tuples (0, .), (1, .) stop, and so do the inner ones; with one
    # variable per system allowed at tau = 0.8, the outer system drops enough, the inner one has no need to.
    problem = Problem(np.array([0.5, 0.4, 0.06, 0.04]), IID(Q4, 2))
    split = Split.of(problem)
    assert split.inner.tokens.tolist() == [3, 2]
    outer, inner = (system.truncate(0.3)[0] for system in (split.outer, split.inner))
    assert outer != inner  # else no limit tells them apart
    solver = GlobalResolution(tau=0.3, max_tokens=min(outer, inner))
    answered, refused = ([2, 3], [0, 3]) if inner < outer else ([0, 3], [2, 3])
    assert solver.conditional(problem, np.array(answered)).sum() == pytest.approx(1.0)
    with pytest.raises(Stopped, match=r"system needs \|T\| = "):
        solver.conditional(problem, np.array(refused))
    assert solve(problem, solver, strict=False).status is Status.LIMIT


def test_limits_say_which_bound() -> None:
    laws = np.full((2, 3000), 1 / 3000)
    for problem, settings, message in (
        (Problem(laws[0], Independent(laws)), "", "more than max_cells = 4,000,000"),
        (peaked_problem(400, 2), ":tau=1e-6", "tokens at tau = 1e-06, more than max_tokens = 50"),
        (peaked_problem(10, 2), ":tau=1e-9:max_iterations=3", "above stop * tau = 3e-09; raise max_iterations (now 3)"),
    ):
        result = solve(problem, f"global_resolution{settings}", strict=False)
        assert result.status is Status.LIMIT
        assert message in result.message


def test_the_printed_stop_promises_less_and_easy_problems_are_solved_to_the_end() -> None:
    printed = solve(peaked_problem(10, 2), "global_resolution:stop=5", strict=False).plan
    assert printed is not None
    assert printed.max_deviation <= 19e-3
    result = solve(Problem(P4, IID(P4, 3)), "global_resolution:tau=1e-9:max_iterations=1000")
    assert result.plan.deviation <= 15e-9


def test_a_leak_of_the_outer_system_counts_twice() -> None:
    # Token 2 is dropped, and should have every tuple that holds it; token 0, which all of its own tuples must serve,
    # has a weight so large that it takes nearly all of them.  What one lacks, the other has too much of.
    leak = 1 - 0.998**2
    p = np.array([0.998**2 - 0.098**2, 0.098**2, leak])
    solver = GlobalResolution(tau=5e-3, stop=0.01, max_iterations=2000)
    plan = solve(Problem(p, IID(np.array([0.9, 0.098, 0.002]), 2)), solver).plan
    assert isinstance(plan, Resolution)
    assert plan.outer.leak == pytest.approx(leak)
    assert plan.outer.slope + 1.5 * leak < plan.deviation <= plan.max_deviation

"""What people hand over in place of an array or a generator: taken for what it is, or refused in a sentence."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import otspec
from otspec import IID, Problem, ProblemError, TopK, UnknownSolver, WithoutReplacement, solve_batch
from otspec.extras import installed
from otspec.laws import as_float64, as_generator, as_laws
from otspec.plans import Coupling
from otspec.solvers.base import SolverBase
from tests.each import each
from tests.instances import P4, Q4, SCHEMES
from tests.test_solving import Canned

solve: Any = otspec.solve
verify: Any = otspec.verify
canonical_decomposition: Any = otspec.canonical_decomposition
warm_up: Any = otspec.warm_up
get: Any = otspec.catalogue.get
"""Given what their types forbid."""

PROBLEM = Problem(P4, IID(Q4, 2))


def tensor(values: Any) -> Any:
    """Of torch, where it is installed."""
    return import_module("torch").tensor(values) if installed("torch") else np.asarray(values)


@each(drafts=([1, 2], (1, 2), tensor([1, 2]), [np.int64(1), np.int32(2)], np.array([1, 2], dtype=np.uint8)))
def test_drafts_come_as_any_sequence_of_integers(drafts: Any) -> None:
    same = np.array([1, 2])
    for law in (lambda values: values, tensor, list):
        assert verify(law(P4), law(Q4), drafts, 5) == verify(P4, Q4, same, 5)
    for spelling in ("interval", "max_flow", "rrs", "global_resolution"):
        plan = solve(PROBLEM, spelling, strict=False).plan
        assert plan is not None
        assert_array_equal(plan.conditional(drafts), plan.conditional(same))
        assert plan.sample(drafts, 5) == plan.sample(same, 5)
    assert PROBLEM.scheme.prob(drafts) == PROBLEM.scheme.prob(same)


def test_a_set_of_tokens_comes_as_any_sequence() -> None:
    assert PROBLEM.bound([1, 2]) == PROBLEM.bound(np.array([2, 1])) == PROBLEM.bound(tensor([1, 2]))
    assert PROBLEM.bound([]) == PROBLEM.bound(np.array([], dtype=np.int64)) == 1.0
    assert_array_equal(as_float64("p", tensor([0.5, 0.5])), [0.5, 0.5])


@each(scheme=SCHEMES)
def test_a_seed_does_where_a_generator_does(scheme: Any) -> None:
    assert_array_equal(scheme.sample(7, 20), scheme.sample(np.random.default_rng(7), 20))
    assert_array_equal(scheme.sample(np.int64(7), 20), scheme.sample(7, 20))
    assert len(np.unique(scheme.sample(0, 50)[:, -1])) > 1 or isinstance(scheme, TopK)


def test_one_seed_for_drafts_and_output_gives_numbers_that_differ() -> None:
    assert as_generator(3).random() != as_generator(3, 1).random()
    # With one stream the coin of the verifier would be the number that chose the draft.
    drafted = [IID(Q4, 1).sample(seed) for seed in range(2000)]
    outputs = np.bincount([verify(P4, Q4, drafts, seed).token for seed, drafts in enumerate(drafted)], minlength=4)
    assert np.abs(outputs / 2000 - P4).max() < 5 * 0.5 / np.sqrt(2000)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "several-tuples": (lambda: solve(PROBLEM).plan.conditional([[0, 1]]), "one tuple at a time, of shape \\(2,\\)"),
    "ragged": (lambda: verify(P4, Q4, [0, [1]], 0), "drafts are not an array of token ids"),
    "no-drafts": (lambda: verify(P4, Q4, [], 0), "there are no drafts"),
    "no-generator": (lambda: verify(P4, Q4, [0], None), "rng is None; pass a generator, .* or an integer"),
    "negative-seed": (lambda: IID(Q4, 2).sample(-1), "rng is -1; pass"),
    "decomposed": (lambda: canonical_decomposition(solve(PROBLEM).plan), "the plan is a Pick, and only a Coupling"),
    "more-than-an-int": (lambda: IID(Q4, 2**31), "n is more than 2,147,483,647"),
    "integrals": (lambda: solve(Problem(P4, IID(Q4, 5000))).plan.conditional([0] * 5000), "draw the output with"),
    "nan-in-a-row": (lambda: solve_batch([P4, [1, np.nan, 0, 0]], [Q4, Q4], 2), "P\\[1\\]\\[1\\] is nan"),
    "no-problem": (lambda: solve(P4, Q4), r"the problem is a ndarray; pass otspec\.Problem\(p, otspec\.IID"),
    "no-solver": (lambda: solve(PROBLEM, 3), "3 is no solver; pass a name such as"),
    "no-dataclass": (lambda: solve(PROBLEM, type("Bare", (SolverBase,), {"__call__": 0})()), "Bare is not a dataclass"),
    "table": (lambda: Coupling.fit(PROBLEM, PROBLEM.scheme.draft_sets(), np.ones(3), 1.0), "one per cell"),
    "instance-of-no-limit": (lambda: solve(PROBLEM, otspec.solvers.LP(tol=-1)), "LP: tol = -1 is not a limit"),
    "limit-of-nan": (lambda: solve(PROBLEM, "interval:tol=nan"), "is not a limit; take a number >= 0"),
    "limit-of-cells": (lambda: solve(PROBLEM, "max_flow:max_cells=-1"), "is not a limit; take a number >= 0"),
    "no-name": (lambda: get(None), "None is no name of a solver"),
    "warming-up": (lambda: warm_up(3), "3 is no solver"),
    "solver-without-plan": (lambda: solve(PROBLEM, Canned(3)), "canned returned Solution.plan=3"),  # type: ignore[arg-type]
    "supports": (lambda: solve(PROBLEM, Canned(reason=False)), "supports returned False"),  # type: ignore[arg-type]
    "empty-chain": (lambda: solve(PROBLEM, []), "the chain of solvers is empty"),
    "another-vocabulary": (lambda: PROBLEM.compact().expand([0.5, 0.5]), "law has shape \\(2,\\); one over"),
    "set-beyond": (lambda: PROBLEM.bound([0, 4]), "H holds 4; token ids run from 0 to 3"),
    "set-of-floats": (lambda: PROBLEM.bound([0.5]), "H is float64 of shape \\(1,\\); pass its token ids"),
    "beyond-float64": (lambda: IID([10**400, 1], 2), "q is not an array of real numbers: int too large"),
    "seed": (lambda: otspec.check_scheme(PROBLEM.scheme, 1, "one"), "rng is 'one'; pass"),  # type: ignore[arg-type]
    "complex": (lambda: as_float64("q", tensor([0.5j, 1.0])), "q is not an array of real numbers: it is complex"),
    "totals-beyond-float64": (lambda: as_laws("laws", [[1e308, 1e308, 0]]), r"laws\[0\] sums to inf"),
}


@each(case=REFUSED)
def test_what_cannot_be_meant_is_refused_in_a_sentence(case: tuple[Callable[[], object], str]) -> None:
    ask, message = case
    with pytest.raises((ProblemError, UnknownSolver), match=message):
        ask()


def test_drafts_without_number_are_solved_and_counted_at_once() -> None:
    problem = Problem(P4, IID(Q4, 2**31 - 1))  # the most
    assert solve(problem).success
    assert problem.scheme.support_size() > 2**60
    assert WithoutReplacement(np.full(100_000, 1e-5), 90_000).set_count() > 2**60
    assert WithoutReplacement(np.full(100_000, 1e-5), 100_000).set_count() == 1

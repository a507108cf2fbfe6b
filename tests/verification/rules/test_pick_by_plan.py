"""Trees whose siblings are drawn jointly."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from otspec import IID, DraftScheme, Greedy, HubPairs, Problem, ProblemError, Table, TopK, WithoutReplacement, optimum
from otspec.paths import Block, Model, PickByPlan, Traversal, path_law
from otspec.verification.reference.enumeration import branching_trees, law_over
from tests.oracles import Floats
from tests.verification.models import model

EXACT = 1e-12


def written_out(q: Floats) -> DraftScheme:
    """Two distinct tokens, one after the other from what is left of q, as a table."""
    pairs = np.array(list(itertools.permutations(range(q.size), 2)))
    return Table(pairs, q[pairs[:, 0]] * q[pairs[:, 1]] / (1 - q[pairs[:, 0]]), q.size)


SCHEMES: dict[str, Callable[[Floats], DraftScheme]] = {
    "without replacement": lambda q: WithoutReplacement(q, 2),
    "without replacement, written out": written_out,
    "greedy": lambda q: Greedy(q, 2),
    "top-n": lambda q: TopK(q, 2),
}


def _one_path(laws: Model) -> float:
    """Mean accepted length of block verification of a single path drawn from the draft law."""
    return path_law(Block(), laws, 1, 2).mean_accepted


@pytest.mark.parametrize("name", SCHEMES)
def test_output_has_the_law_of_the_target(name: str) -> None:
    scheme = SCHEMES[name]
    slow = name == "without replacement"  # `release`, which errs by 1e-4 in what is accepted
    for at in [("tiny", 0), ("tied", 1), ("uniform", 0), *([] if slow else [("tiny", 1), ("tied", 4), ("same", 0)])]:
        laws = model(at[0], 3, at[1])
        verifier = PickByPlan(scheme)
        law = law_over(branching_trees(laws, scheme, 2), verifier, laws, 2)
        assert law.deviation <= 1e-9, at  # what exact solvers owe
        assert law.mean_accepted >= _one_path(laws) - (1e-4 if slow else 1e-9) or name == "top-n", at


@pytest.mark.parametrize("name", SCHEMES)
def test_one_level_is_the_optimum_of_the_position(name: str) -> None:
    scheme = SCHEMES[name]
    for seed in range(4):
        laws = model("tiny", 4, seed)
        problem = Problem(np.asarray(laws.target(())), scheme(np.asarray(laws.draft(()))))
        law = law_over(branching_trees(laws, scheme, 1), PickByPlan(scheme), laws, 1)
        tol = 1e-4 if name == "without replacement" else 1e-8  # that of `release`
        assert law.mean_accepted == pytest.approx(optimum(problem).bound, abs=tol)


def test_traversal_takes_siblings_without_replacement() -> None:
    """Lossless, and below the exact pick on average [weng2025traversal]."""
    gain = 0.0
    for seed in range(3):
        laws = model("tiny", 3, seed)
        trees = list(branching_trees(laws, written_out, 2))
        assert sum(chance for chance, _ in trees) == pytest.approx(1.0, abs=EXACT)
        traversal = law_over(trees, Traversal(), laws, 2)
        picked = law_over(trees, PickByPlan(written_out), laws, 2)
        assert traversal.deviation <= EXACT
        gain += picked.mean_accepted - traversal.mean_accepted
    assert gain > 0


def test_a_wrong_scheme_is_seen() -> None:
    """Drafts without replacement, verified as if they were greedy."""
    laws = model("tiny", 3, 1)
    trees = branching_trees(laws, written_out, 2)
    told = PickByPlan(lambda q: Table(np.array(list(itertools.permutations(range(3), 2))), np.full(6, 1 / 6), 3))
    assert law_over(trees, told, laws, 2).deviation > 1e-3


def test_picks_by_sampling() -> None:
    rng = np.random.default_rng(1)
    laws = model("tiny", 4, 3)
    verifier = PickByPlan(lambda q: Greedy(q, 2))
    trees = list(branching_trees(laws, verifier.scheme, 2))
    tree = trees[len(trees) // 2][1]
    weights, _ = verifier.picks(tree)
    picks = np.bincount([verifier.pick(tree, rng).path for _ in range(200)], minlength=tree.count) / 200
    np.testing.assert_allclose(picks, weights, atol=5 * 0.5 / np.sqrt(200))


def test_a_solver_whose_plans_pick_no_draft() -> None:
    laws = model("tiny", 3, 0)
    trees = list(branching_trees(laws, HubPairs, 2))
    for solver, named in ((None, "the solver of choice"), ("spechub", "solver spechub")):
        with pytest.raises(ProblemError, match=f'{named} answers for HubPairs with a Sequential.*solver="max_flow"'):
            law_over(trees, PickByPlan(HubPairs, solver), laws, 2)
    for family in ("tiny", "tied", "uniform"):
        laws = model(family, 3, 1)
        trees = list(branching_trees(laws, HubPairs, 2))
        assert law_over(trees, PickByPlan(HubPairs, "max_flow"), laws, 2).deviation <= 1e-9, family


def test_drafts_that_coincide() -> None:
    laws = model("tiny", 3, 0)
    with pytest.raises(ProblemError, match=r"node 0 has 1 children, and IID draws 2; .* has to draw distinct tokens"):
        law_over(branching_trees(laws, lambda q: IID(q, 2), 1), PickByPlan(lambda q: IID(q, 2)), laws, 1)

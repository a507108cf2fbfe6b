"""Trees whose siblings are drawn jointly, or whose paths share draws: picked by plans, token by token, and in turn."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from otspec import IID, DraftScheme, Greedy, HubPairs, Problem, ProblemError, Table, TopK, WithoutReplacement, optimum
from otspec.paths import Block, PickByPlan, TokenWise, Traversal, Tree, path_law
from otspec.verification.reference.enumeration import branching_trees, law_over
from otspec.verification.trees.tree import Prefix
from tests.each import each
from tests.oracles import Floats
from tests.verification.catalogue import EXACT, follows
from tests.verification.models import FAMILIES, model

SHARED = np.array([[0, 1, 3], [0, 1, 4], [0, 2, 5], [0, 2, 6]])
"""Slots 1 and 2, then 3 and 4 below 1, 5 and 6 below 2."""


def written_out(q: Floats) -> DraftScheme:
    """Two distinct tokens, one after the other from what is left of q, as a table."""
    pairs = np.array(list(itertools.permutations(range(q.size), 2)))
    return Table(pairs, q[pairs[:, 0]] * q[pairs[:, 1]] / (1 - q[pairs[:, 0]]), q.size)


Scheme = Callable[[Floats], DraftScheme]
SCHEMES: dict[str, tuple[Scheme, float]] = {
    "without replacement": (lambda q: WithoutReplacement(q, 2), 1e-4),  # `release` errs by that in what is accepted
    "without replacement, written out": (written_out, 1e-8),
    "greedy": (lambda q: Greedy(q, 2), 1e-8),
    "top-n": (lambda q: TopK(q, 2), 1e-8),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_picks_are_lossless_and_of_one_level_the_optimum_of_the_position(name: str) -> None:
    scheme, off = SCHEMES[name]
    more = [] if name == "without replacement" else [("tiny", 1), ("tied", 4), ("same", 0)]
    for at in [("tiny", 0), ("tied", 1), ("uniform", 0), *more]:
        laws = model(at[0], 3, at[1])
        law = law_over(branching_trees(laws, scheme, 2), PickByPlan(scheme), laws, 2)
        assert law.deviation <= 1e-9, at  # what exact solvers owe
        assert law.mean_accepted >= path_law(Block(), laws, 1, 2).mean_accepted - off or name == "top-n", at
    for seed in range(4):
        laws = model("tiny", 4, seed)
        problem = Problem(np.asarray(laws.target(())), scheme(np.asarray(laws.draft(()))))
        law = law_over(branching_trees(laws, scheme, 1), PickByPlan(scheme), laws, 1)
        assert law.mean_accepted == pytest.approx(optimum(problem).bound, abs=off)


def test_traversal_takes_siblings_without_replacement() -> None:
    """Lossless, and below the exact pick on average [weng2025traversal]."""
    gain = 0.0
    for seed in range(3):
        laws = model("tiny", 3, seed)
        trees = list(branching_trees(laws, written_out, 2))
        assert sum(chance for chance, _ in trees) == pytest.approx(1.0, abs=EXACT)
        traversal, picked = (law_over(trees, rule, laws, 2) for rule in (Traversal(), PickByPlan(written_out)))
        assert traversal.deviation <= EXACT
        gain += picked.mean_accepted - traversal.mean_accepted
    assert gain > 0


def test_a_wrong_scheme_is_seen_and_picks_follow_their_law() -> None:
    """Drafts without replacement, verified as if they were uniform."""
    laws = model("tiny", 3, 1)
    told = PickByPlan(lambda q: Table(np.array(list(itertools.permutations(range(3), 2))), np.full(6, 1 / 6), 3))
    assert law_over(branching_trees(laws, written_out, 2), told, laws, 2).deviation > 1e-3
    laws, verifier, rng = model("tiny", 4, 3), PickByPlan(lambda q: Greedy(q, 2)), np.random.default_rng(1)
    trees = list(branching_trees(laws, verifier.scheme, 2))
    tree = trees[len(trees) // 2][1]
    picks = [verifier.pick(tree, rng).path for _ in range(200)]
    assert follows(np.bincount(picks, minlength=tree.count), verifier.picks(tree)[0])


def test_plans_that_pick_no_draft_and_drafts_that_coincide() -> None:
    laws = model("tiny", 3, 0)
    trees = list(branching_trees(laws, HubPairs, 2))
    for solver, named in ((None, "the solver of choice"), ("spechub", "solver spechub")):
        with pytest.raises(ProblemError, match=f'{named} answers for HubPairs with a Sequential.*solver="max_flow"'):
            law_over(trees, PickByPlan(HubPairs, solver), laws, 2)
    for family in ("tiny", "tied", "uniform"):
        laws = model(family, 3, 1)
        trees = list(branching_trees(laws, HubPairs, 2))
        assert law_over(trees, PickByPlan(HubPairs, "max_flow"), laws, 2).deviation <= 1e-9, family
    with pytest.raises(ProblemError, match=r"node 0 has 1 children, and IID draws 2; .* has to draw distinct tokens"):
        law_over(branching_trees(laws, lambda q: IID(q, 2), 1), PickByPlan(lambda q: IID(q, 2)), laws, 1)


# --- token by token


@each(scheme=(WithoutReplacement, Greedy, TopK), family=("tiny", "peaked", "tail", "tied", "uniform", "same"))
def test_siblings_drawn_jointly(scheme: Callable[[Floats, int], DraftScheme], family: str) -> None:
    pair = model(family, 3, 2)
    trees = ((chance, replace(tree, draw=SHARED)) for chance, tree in branching_trees(pair, lambda q: scheme(q, 2), 2))
    assert law_over(trees, TokenWise("max_flow", remember=1000, scheme=scheme), pair, 2).deviation <= EXACT


@each(family=FAMILIES)
def test_two_children_of_every_node_each_drawn_on_its_own(family: str) -> None:
    pair = model(family, 2, 4)
    trees: list[tuple[float, Tree]] = []
    for tokens in itertools.product(range(2), repeat=6):
        paths: list[Prefix] = [tuple(tokens[slot - 1] for slot in path[1:]) for path in SHARED]
        chance = np.prod([pair.draft(())[token] for token in tokens[:2]])
        chance *= np.prod([pair.draft(path[:1])[path[1]] for path in paths])
        if chance > 0:
            trees.append((float(chance), replace(pair.tree(paths), draw=SHARED)))
    assert sum(chance for chance, _ in trees) == pytest.approx(1.0)
    assert law_over(trees, TokenWise(remember=1000), pair, 2).deviation <= EXACT


def test_as_many_drafts_as_there_were_draws() -> None:
    alone, everyone = model("peaked", 3).tree([[0, 1], [0, 2], [0, 1], [0, 1]]), np.arange(4)
    assert alone.draw.tolist() == [[0, 1, 5], [0, 2, 6], [0, 3, 7], [0, 4, 8]]
    shared = replace(alone, draw=np.array([[0, 2, 3], [0, 2, 4], [0, 1, 5], [0, 1, 6]]))
    assert alone.drafts(everyone, 1).tolist() == [0, 0, 0, 0]
    assert shared.drafts(everyone, 1).tolist() == [0, 0]
    assert shared.drafts(everyone, 2).tolist() == [1, 2, 1, 1]
    assert shared.drafts(np.array([0, 1]), 2).tolist() == [1, 2]

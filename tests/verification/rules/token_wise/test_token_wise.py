"""Token-wise verification of trees whose paths share draws: siblings drawn jointly, and n-ary trees."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from otspec import Greedy, TopK, WithoutReplacement
from otspec.paths import TokenWise, Tree
from otspec.verification.reference.enumeration import branching_trees, law_over
from otspec.verification.rules.token_wise.token_wise import Scheme
from otspec.verification.trees.tree import Prefix
from tests.verification.models import FAMILIES, model

EXACT = 1e-12


@pytest.mark.parametrize("scheme", [WithoutReplacement, Greedy, TopK])
def test_siblings_drawn_jointly(scheme: Scheme) -> None:
    for family in ("tiny", "peaked", "tail", "tied", "uniform", "same"):
        pair = model(family, 3, 2)
        draws = np.array([[0, 1, 3], [0, 1, 4], [0, 2, 5], [0, 2, 6]])
        trees = (
            (chance, replace(tree, draw=draws)) for chance, tree in branching_trees(pair, lambda q: scheme(q, 2), 2)
        )
        verifier = TokenWise("max_flow", remember=1000, scheme=scheme)
        assert law_over(trees, verifier, pair, 2).deviation <= EXACT, family


def test_trees_of_independent_children() -> None:
    """Two children of every node, each drawn on its own: slots 1 and 2, then 3 and 4 below 1, 5 and 6 below 2."""
    draws = np.array([[0, 1, 3], [0, 1, 4], [0, 2, 5], [0, 2, 6]])
    for family in FAMILIES:
        pair = model(family, 2, 4)
        trees: list[tuple[float, Tree]] = []
        for tokens in itertools.product(range(2), repeat=6):
            paths: list[Prefix] = [tuple(tokens[slot - 1] for slot in path[1:]) for path in draws]
            chance = np.prod([pair.draft(())[token] for token in tokens[:2]])
            chance *= np.prod([pair.draft(path[:1])[path[1]] for path in paths])
            if chance > 0:
                trees.append((float(chance), replace(pair.tree(paths), draw=draws)))
        assert sum(chance for chance, _ in trees) == pytest.approx(1.0), family
        assert law_over(trees, TokenWise(remember=1000), pair, 2).deviation <= EXACT, family


def test_as_many_drafts_as_there_were_draws() -> None:
    pair = model("peaked", 3)
    paths = [[0, 1], [0, 2], [0, 1], [0, 1]]
    alone = pair.tree(paths)
    assert alone.draw.tolist() == [[0, 1, 5], [0, 2, 6], [0, 3, 7], [0, 4, 8]]
    shared = replace(alone, draw=np.array([[0, 2, 3], [0, 2, 4], [0, 1, 5], [0, 1, 6]]))
    everyone = np.arange(4)
    assert alone.drafts(everyone, 1).tolist() == [0, 0, 0, 0]
    assert shared.drafts(everyone, 1).tolist() == [0, 0]
    assert shared.drafts(everyone, 2).tolist() == [1, 2, 1, 1]
    assert shared.drafts(np.array([0, 1]), 2).tolist() == [1, 2]

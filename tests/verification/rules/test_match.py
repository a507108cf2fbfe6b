"""Drawing from the target and seeing what was drafted: exact on any tree, and the best there is on fixed ones."""

import numpy as np
import pytest

from otspec import ProblemError
from otspec.paths import Match, Model, TokenWise, Tree, path_law
from otspec.verification.reference.enumeration import law_over
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import NONE, Topology
from tests.verification.models import FAMILIES, model

EXACT = 1e-12
FIXED: dict[str, list[list[int]]] = {
    "one path": [[1, 0, 2]],
    "paths of different lengths": [[1, 0, 2], [2], [1, 2]],
    "the same twice": [[0, 0], [0, 0]],
    "all children of the root": [[0], [1], [2]],
    "a path within a path": [[2, 1, 1], [2, 1]],
    "nothing": [],
}


def _tree(laws: Model, paths: list[list[int]]) -> Tree:
    """The target's laws at the nodes of fixed paths."""
    longest = max(map(len, paths), default=0)
    tokens = np.full((longest, len(paths)), NONE)
    for column, path in enumerate(paths):
        tokens[: len(path), column] = path
    topology = Topology.merge(Shape.paths(len(paths), longest) if paths else Shape(()), tokens.ravel())
    prefixes = [tuple(topology.token[topology.line(node)].tolist()) for node in range(topology.size)]
    return Tree.with_laws(topology, np.array([laws.target(prefix) for prefix in prefixes]), np.empty((0, 3)))


@pytest.mark.parametrize("name", FIXED)
def test_fixed_drafts(name: str) -> None:
    for family in FAMILIES:
        laws = model(family, 3, 1)
        found = law_over([(1.0, _tree(laws, FIXED[name]))], Match(), laws, 3)
        assert found.deviation <= EXACT, family
        # A prefix is accepted as often as the target writes it.
        for prefix in {tuple(path[:size]) for path in FIXED[name] for size in range(1, len(path) + 1)}:
            chance = np.prod([laws.target(prefix[:i])[token] for i, token in enumerate(prefix)])
            assert found.accepted[prefix] == pytest.approx(chance, abs=EXACT), (family, prefix)


def test_drafts_that_were_drawn_at_random() -> None:
    """Lossless whatever law they are from, and no better than not to know it: the same as the naive rule."""
    for family in FAMILIES:
        laws = model(family, 3, 3)
        found, naive = (path_law(rule, laws, 2, 2) for rule in (Match(), TokenWise("naive", 1000)))
        assert found.deviation <= EXACT, family
        assert found.mean_accepted == pytest.approx(naive.mean_accepted, abs=1e-9), family


@pytest.mark.parametrize("name", FIXED)
def test_it_does_as_its_stop_law_says(name: str) -> None:
    tree, runs = _tree(model("spread", 3, 2) if "spread" in FAMILIES else model(FAMILIES[0], 3, 2), FIXED[name]), 4000
    rng, counts = np.random.default_rng(0), np.zeros_like(tree.target)
    for _ in range(runs):
        verdict = Match().verify(tree, rng)
        assert verdict.accepted == tree.depth[verdict.node]
        counts[verdict.node, verdict.token] += 1
    law = Match().stop_law(tree)
    assert law.sum() == pytest.approx(1.0)
    assert not counts[law == 0].any()
    np.testing.assert_allclose(counts / runs, law, atol=5 * 0.5 / np.sqrt(runs))


def test_what_is_no_tree_is_refused() -> None:
    with pytest.raises(ProblemError, match="the tree is 3; pass what"):
        Match().verify(3, 0)  # type: ignore[arg-type]

"""Every verifier over all drafts of small models: its output has the target's law, and it accepts what it should."""

import itertools
from typing import Any

import numpy as np
import pytest

from otspec import ProblemError
from otspec.verification import Block, Match, Model, PickByPlan, TokenWise, Tree, path_law, synthetic, tree_law
from otspec.verification.reference.enumeration import branching_trees, law_over, prefixes
from otspec.verification.rules.block.block import PickVerifier
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.topology import NONE, Topology
from otspec.verification.trees.tree import prefixes_of
from tests.each import each
from tests.verification.catalogue import ALL, EXACT, LABELS, LOOSE, OTHERS, VERIFIERS, cases, follows
from tests.verification.models import FAMILIES, model
from tests.verification.rules.test_branching import mean_along

MORE = ((3, (3, 1), "tiny"), (2, (3, 1, 1), "tied"))
"""More paths, for the rules that everything else is built on."""


@pytest.mark.parametrize("name", [*VERIFIERS, *OTHERS])
def test_output_has_the_law_of_the_target(name: str) -> None:
    """Of paths and of trees of every small shape; and rules that pick a path accept what they say along each."""
    verifier, more = ALL[name], MORE if name in ("token-wise interval", "nested", "look-ahead") else ()
    for case in (*cases(name), *more):
        vocab, branching, family = case
        laws = model(family, vocab, 3)
        law = tree_law(verifier, laws, branching)
        assert law.deviation <= LOOSE.get(name, EXACT), case
        assert law.target.sum() == pytest.approx(1.0, abs=EXACT), case
        if name in LABELS:
            # A prefix that comes after a refusal may be a draft that was not picked.
            mean = mean_along(LABELS[name], laws, vocab, branching)
            assert law.mean_accepted == pytest.approx(mean, abs=EXACT), case


ONE_PATH = ("hierarchical", "traversal", "nested", "look-ahead", "layer", "layer single", "layer kseq", "layer rrs")


@each(family=FAMILIES)
def test_one_path_is_block_verification_and_one_step_the_interval_solver(family: str) -> None:
    laws, once = model(family, 3, 6), [model(family, 4, seed) for seed in range(2)]
    block = path_law(Block(), laws, 1, 2)
    for name in ONE_PATH:
        law = path_law(ALL[name], laws, 1, 2)
        for prefix in prefixes(3, 2):
            assert law.accepted[prefix] == pytest.approx(block.accepted[prefix], abs=EXACT), name
    for name, small in itertools.product(("layer", "nested", "look-ahead"), once):
        # The token after a refusal may be a draft that was not picked: the output counts it, the rule does not.
        accepted, expected = (path_law(ALL[one], small, 3, 1).mean_accepted for one in (name, "token-wise interval"))
        assert accepted == pytest.approx(expected, abs=1e-11), name


FIXED: dict[str, list[list[int]]] = {
    "one path": [[1, 0, 2]],
    "paths of different lengths": [[1, 0, 2], [2], [1, 2]],
    "the same twice": [[0, 0], [0, 0]],
    "all children of the root": [[0], [1], [2]],
    "a path within a path": [[2, 1, 1], [2, 1]],
    "nothing": [],
}


def fixed_tree(laws: Model, paths: list[list[int]]) -> Tree:
    """The target's laws at the nodes of fixed paths."""
    longest = max(map(len, paths), default=0)
    tokens = np.full((longest, len(paths)), NONE)
    for column, path in enumerate(paths):
        tokens[: len(path), column] = path
    topology = Topology.merge(Shape.paths(len(paths), longest) if paths else Shape(()), tokens.ravel())
    prefixes = prefixes_of(topology)
    return Tree.with_laws(topology, np.array([laws.target(prefix) for prefix in prefixes]), np.empty((0, 3)))


@each(paths=FIXED, family=FAMILIES)
def test_fixed_drafts_are_matched_as_often_as_the_target_writes_them(paths: list[list[int]], family: str) -> None:
    laws = model(family, 3, 1)
    found = law_over([(1.0, fixed_tree(laws, paths))], Match(), laws, 3)
    assert found.deviation <= EXACT
    for prefix in {tuple(path[:size]) for path in paths for size in range(1, len(path) + 1)}:
        chance = np.prod([laws.target(prefix[:i])[token] for i, token in enumerate(prefix)])
        assert found.accepted[prefix] == pytest.approx(chance, abs=EXACT), prefix
    # Drafts that were drawn are matched as by the naive rule: no better than not to know their law.
    drawn, naive = (path_law(rule, model(family, 3, 3), 2, 2) for rule in (Match(), TokenWise("naive", 1000)))
    assert drawn.deviation <= EXACT
    assert drawn.mean_accepted == pytest.approx(naive.mean_accepted, abs=1e-9)


def drawn_trees(name: str) -> list[Tree]:
    if name == "match":
        return [fixed_tree(model("tiny", 3, 2), paths) for paths in FIXED.values()]
    if isinstance(rule := ALL[name], PickByPlan):
        return [tree for _, tree in branching_trees(model("tiny", 4, 3), rule.scheme, 2)][8:10]
    trees = [laws.tree(laws.sample(3, 3, 0)) for laws in (model("tiny", 3, 2), model("tied", 3, 2))]
    return [*trees, model("peaked", 9, 2).drawn((2, 1, 2), 0)] if name in LABELS else trees


@pytest.mark.parametrize("name", [name for name in ALL if name != "token-wise lp"])
def test_draws_have_the_exact_law_and_log_probabilities_are_the_targets(name: str) -> None:
    """But of a rule that solves a program at every draw."""
    verifier, rng = ALL[name], np.random.default_rng(0)
    for tree in drawn_trees(name):
        law, counts = verifier.stop_law(tree), np.zeros_like(tree.target, dtype=np.int64)
        assert law.sum() == pytest.approx(1.0, abs=1e-8)
        for _ in range(600):
            verdict = verifier.verify(tree, rng)
            assert verdict.accepted == len(tree.prefix(verdict.node))
            counts[verdict.node, verdict.token] += 1
        assert follows(counts, law)
        nodes = [0, *tree.line(verdict.node)]
        text = (*tree.prefix(verdict.node), verdict.token)
        expected = [np.log(tree.target[node, token]) for node, token in zip(nodes, text, strict=True)]
        np.testing.assert_allclose(verdict.logprobs(tree), expected)


SEEDED = synthetic("tiny", 4, 3)


@pytest.mark.parametrize("name", ALL)
def test_a_seed_verifies_as_its_generator_does(name: str) -> None:
    verifier: Any = ALL[name]
    tree: Any = SEEDED.tree(SEEDED.sample(3, 2, 5))
    if name == "pick by plan":
        tree = SEEDED.tree([[token] for token in verifier.scheme(SEEDED.draft(())).sample(1)])
    for seed in range(20):
        verified = verifier.verify(tree, seed)
        assert verified == verifier.verify(tree, np.random.default_rng((seed, 1)))
        assert verified == verifier.verify(tree, np.int64(seed))
    if isinstance(ALL[name], PickVerifier):
        assert verifier.pick(tree, 3).path == verifier.pick(tree, np.random.default_rng((3, 1))).path
    for wrong in (None, -1, 0.5, True):
        with pytest.raises(ProblemError, match=f"rng is {wrong}; pass a generator"):
            verifier.verify(tree, wrong)
    with pytest.raises(ProblemError, match="the tree is 3; pass what"):
        verifier.verify(3, 0)

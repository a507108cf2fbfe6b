"""Rules that pick a path of a tree: the law of the pick, what it is worth, deep trees, and figures of before."""

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest

from otspec import ProblemError
from otspec.paths import Block, GreedyMultiPath, Model, Nested, synthetic, tree_law
from otspec.verification.reference.enumeration import trees_of
from otspec.verification.rules.nested.growth import Sharings
from otspec.verification.rules.nested.nested import LabelVerifier
from otspec.verification.rules.nested.sharing import PLAIN
from otspec.verification.trees.shape import Shape
from otspec.verification.trees.tree import Prefix
from tests.oracles import Floats
from tests.verification.catalogue import EXACT, LABELS, VERIFIERS, follows, shapes
from tests.verification.models import FAMILIES, model


def along(verifier: LabelVerifier, laws: Model, branching: tuple[int, ...], path: Prefix) -> Floats:
    target, draft = (np.array([law(path[:i]) for i in range(len(path))]) for law in (laws.target, laws.draft))
    return verifier.along(target, draft, np.array(path), Shape(branching))


def mean_along(verifier: LabelVerifier, laws: Model, vocab: int, branching: tuple[int, ...]) -> float:
    """Mean accepted length: the sum of A(v) = min(A(parent) p, g) over all prefixes, by refining along each."""
    seen: dict[Prefix, float] = {}
    for path in itertools.product(range(vocab), repeat=len(branching)):
        proposal = along(verifier, laws, branching, path)
        g = accepted = 1.0
        for i, token in enumerate(path):
            g *= proposal[i, token]
            accepted = min(accepted * np.asarray(laws.target(path[:i]))[token], g)
            seen[path[: i + 1]] = accepted
    return sum(seen.values())


@pytest.mark.parametrize("name", LABELS)
def test_the_picked_path_has_the_law_that_block_verification_is_told(name: str) -> None:
    for number, (vocab, branching) in enumerate([(2, shape) for shape in shapes(2, 50)] + [(3, (2, 2)), (3, (1, 3))]):
        laws = model(FAMILIES[number % len(FAMILIES)], vocab, 4)
        picked: dict[Prefix, float] = defaultdict(float)
        for chance, tree in trees_of(laws, Shape(branching), True):
            for nodes, weight in zip(tree.node, LABELS[name].picks(tree)[0], strict=True):
                picked[tree.prefix(int(nodes[-1]))] += chance * weight
        for path in itertools.product(range(vocab), repeat=len(branching)):
            proposal = along(LABELS[name], laws, branching, path)
            told = math.prod(float(proposal[i, token]) for i, token in enumerate(path))
            if math.prod(float(np.asarray(laws.draft(path[:i]))[x]) for i, x in enumerate(path)) > 0:
                assert picked[path] == pytest.approx(told, abs=EXACT), (vocab, branching, path)


def test_picks_sum_to_one_and_follow_their_law() -> None:
    rng = np.random.default_rng(5)
    laws = synthetic("mixed", 100, 9)
    for branching in ((2, 2, 2), (1, 2, 3), (3, 2), (4, 1, 1, 1, 1)):
        tree = laws.drawn(branching, rng)
        for verifier in (Nested(0.0), Nested(), GreedyMultiPath()):
            weights, _ = verifier.picks(tree)
            assert weights.sum() == pytest.approx(1.0, abs=EXACT), (branching, verifier)
            picks = [verifier.pick(tree, rng).path for _ in range(600)]
            assert follows(np.bincount(picks, minlength=weights.size), weights), (branching, verifier)


def test_a_stem_is_verified_as_a_block_and_the_paths_after_it_as_paths() -> None:
    """Behind a stem the labels are those of K paths from the root."""
    for seed in range(4):
        laws = model("tiny" if seed % 2 else "peaked", 3, seed)
        after = Model(*(lambda prefix, law=law: law((1, *prefix)) for law in (laws.target, laws.draft)))
        for verifier in LABELS.values():
            for path in itertools.product(range(3), repeat=2):
                stem = along(verifier, laws, (1, 3, 1), (1, *path))
                np.testing.assert_allclose(stem[0], laws.draft(()), rtol=1e-15)
                if verifier is not LABELS["look-ahead"]:  # it weighs by what block verification left of the stem
                    np.testing.assert_allclose(stem[1:], along(verifier, after, (3, 1), path), atol=1e-15)


DEEP = ((1e-12, (2, *(1,) * 20, 2, *(1,) * 20, 2)), (1e-12, (4, *(1,) * 59)), (1e-3, (2, 1, 2, 2)))


def test_deep_trees_of_rare_tokens() -> None:
    """Labels that are out of floats as numbers on [0, 1]: picks stay sound, and where they can be told apart exact."""
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(21))
    for rare, branching in DEEP:
        q = np.append(np.full(20, rare), 1 - 20 * rare)
        shape = Shape(branching)
        tokens = rng.integers(0, 20, shape.slots)
        tree = Model(lambda prefix: p, lambda prefix, q=q: q).tree(tokens[shape.paths_of_slots[:, 1:]], branching)  # type: ignore[misc]
        for verifier in (Nested(0.0), Nested()):
            picked = verifier.pick(tree, rng)
            np.testing.assert_allclose(picked.proposal.sum(axis=1), 1.0, atol=EXACT, err_msg=str((rare, verifier)))
            assert verifier.verify(tree, rng).accepted >= 0
            if rare == 1e-3:
                assert verifier.picks(tree)[0].sum() == pytest.approx(1.0, abs=EXACT), verifier


def test_nested_is_never_below_the_others() -> None:
    """Token-wise transport and single-path block verification, on trees with branching nodes."""
    others = {name: VERIFIERS[name] for name in ("token-wise interval", "block")}
    better = dict.fromkeys(others, 0)
    trees = ((2, (1, 2, 2)), (2, (2, 1, 2)), (3, (2, 2)), (3, (1, 3)))
    paths = ((2, (2, 1)), (3, (2, 1)), (2, (2, 1, 1)), (2, (3, 1)))
    cases = (*itertools.product(trees, range(2)), *itertools.product(paths, range(20)))
    for number, ((vocab, branching), seed) in enumerate(cases):
        laws = model("tiny" if number < 8 or seed % 2 else "peaked", vocab, seed)
        nested = mean_along(LABELS["nested"], laws, vocab, branching)
        for name, other in others.items():
            worth = tree_law(other, laws, branching).mean_accepted
            assert nested >= worth - EXACT, (branching, seed, name)
            better[name] += nested > worth + 1e-6
    assert better["token-wise interval"] > len(cases) / 4
    assert better["block"] >= 8


def test_shapes_are_checked() -> None:
    laws = model("tiny", 3)
    with pytest.raises(ProblemError, match=r"paths have shape \(2, 2\); branching \(2, 2\) has 4 paths of 2 tokens"):
        laws.tree([[0, 1], [0, 2]], (2, 2))
    with pytest.raises(ProblemError, match=r"token 0 of path 0 is 0; by branching .* where it is 1"):
        laws.tree([[0, 1], [1, 2]], (1, 2))
    with pytest.raises(ProblemError, match="branching is 3; pass the number of children on each level"):
        laws.drawn(3, 0)  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="branching is 0; pass an integer >= 1"):
        tree_law(Block(), laws, (2, 0))
    with pytest.raises(ProblemError, match=r"over 3 tokens makes .* trees, more than 1000000"):
        tree_law(Block(), laws, (6, 6))


PINNED = {
    ("mixed", "plain"): ([0.13037991802530896, 0.5941679465207454, 0.0, 0.2754521354539456], 5.408541518333631),
    ("mixed", "four parts"): (
        [0.6766109905807389, 0.05320805429333982, 0.01894373346364748, 0.2512372216622739],
        5.2642388894498495,
    ),
    ("mixed", "greedy"): ([1.0, 0.0, 0.0, 0.0], 5.377697235716096),
    ("sharp", "plain"): ([0.0, 1.0, 0.0, 0.0], 11.329091629290136),
    ("sharp", "four parts"): ([0.7591442057507869, 0.240855794249213, 0.0, 0.0], 11.512549267011405),
    ("sharp", "greedy"): ([0.0, 1.0, 0.0, 0.0], 11.596613474804656),
}
"""Of 4 paths of 6 tokens over 300, as verified before trees could branch: P(pick), and the sum of squares of g."""


class FourParts(LabelVerifier):
    """Look-ahead as it was then: tokens were split into four, and all sorted on the last level."""

    @property
    def _sharings(self) -> Sharings:
        return Sharings(PLAIN, Nested(parts=4)._sharings.above)


def test_paths_from_the_root_are_verified_as_ever() -> None:
    verifiers = {"plain": Nested(0.0), "four parts": FourParts(), "greedy": GreedyMultiPath()}
    for (regime, name), (weights, squares) in PINNED.items():
        laws = synthetic(regime, 300, 3)
        picks, proposals = verifiers[name].picks(laws.tree(laws.sample(4, 6, 1)))
        np.testing.assert_allclose(picks, weights, atol=1e-14, err_msg=str((regime, name)))
        assert (np.array(proposals) ** 2).sum() == pytest.approx(squares, rel=1e-14), (regime, name)

"""Every verifier over all drafts of small models: its output has the target's law, and it accepts what it should."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

from otspec import ProblemError
from otspec.paths import (
    Block,
    GreedyMultiPath,
    Hierarchical,
    LayerVerification,
    Model,
    Nested,
    PathVerifier,
    TokenWise,
    Traversal,
    Tree,
    path_law,
)
from otspec.verification.reference.enumeration import prefixes
from otspec.verification.rules.block.block import Picked, PickVerifier, block_weights, residual_law
from otspec.verification.trees.shape import Shape
from tests.oracles import Floats, Ints
from tests.verification.models import FAMILIES, model

EXACT = 1e-12
SHAPES = [(2, 2, 2), (3, 2, 2), (2, 3, 2), (2, 2, 3), (3, 1, 3), (2, 3, 1)]
"""V, L, K."""

VERIFIERS: dict[str, PathVerifier] = {
    "block": Block(),
    "hierarchical": Hierarchical(),
    "token-wise interval": TokenWise("interval", remember=5000),
    "token-wise lp": TokenWise("lp", remember=5000),
    "traversal": Traversal(),
    "layer": LayerVerification(remember=5000),
    "layer kseq": LayerVerification("kseq", remember=5000),
    "greedy multi-path": GreedyMultiPath(),
    "nested": Nested(sigma=0.0),
    "look-ahead": Nested(sigma=0.7, parts=3, grain=0.3),
}


@pytest.mark.parametrize("name", VERIFIERS)
def test_output_has_the_law_of_the_target(name: str) -> None:
    for (vocab, length, count), family in itertools.product(SHAPES, FAMILIES):
        law = path_law(VERIFIERS[name], model(family, vocab, 3), count, length)
        # An LP's vertex is feasible to 1e-9 only.
        assert law.deviation <= (1e-8 if name == "token-wise lp" else EXACT), (vocab, length, count, family)
        assert law.target.sum() == pytest.approx(1.0, abs=EXACT), (vocab, length, count, family)


@pytest.mark.parametrize("name", ["token-wise interval", "nested", "look-ahead"])
def test_output_has_the_law_of_the_target_on_more_paths(name: str) -> None:
    for vocab, length, count in [(3, 2, 3), (2, 3, 3), *([(3, 3, 3)] if name == "nested" else [])]:
        for family in ("tiny",) if (vocab, length) == (3, 3) else ("tiny", "tied"):
            law = path_law(VERIFIERS[name], model(family, vocab, 5), count, length)
            assert law.deviation <= EXACT, (vocab, length, count, family)


def test_places_owned_in_common_by_tokens_of_equal_ratio() -> None:
    """Which of them survive is a matter of the token, not of the group that it shares its labels with."""
    half, quarter = np.full(2, 0.5), np.full(4, 0.25)
    uneven = np.array([0.2, 0.3, 0.5]), np.array([0.16, 0.24, 0.6])
    models = [
        Model(lambda prefix: np.array([0.25, 0.75]) if prefix else half, lambda prefix: half),
        Model(lambda prefix: np.array([0.7, 0.1, 0.1, 0.1]) if prefix else quarter, lambda prefix: quarter),
        Model(lambda prefix: uneven[0], lambda prefix: uneven[1]),
    ]
    for number, laws in enumerate(models):
        for name in ("nested", "look-ahead", "greedy multi-path", "token-wise interval"):
            for count in (2, 3) if number != 1 else (2,):
                assert path_law(VERIFIERS[name], laws, count, 2).deviation <= EXACT, (number, name, count)


@dataclass(frozen=True)
class InOrder:
    """Another verifier, enumerated over all orders of the paths."""

    verifier: PathVerifier
    exchangeable: bool = False

    def verify(self, tree: Tree, rng: np.random.Generator) -> object:
        return self.verifier.verify(tree, rng)

    def stop_law(self, tree: Tree) -> Floats:
        return self.verifier.stop_law(tree)


@pytest.mark.parametrize("name", [name for name, verifier in VERIFIERS.items() if verifier.exchangeable])
def test_the_order_of_the_paths_does_not_matter(name: str) -> None:
    laws = model("peaked", 2, 8)
    once = path_law(VERIFIERS[name], laws, 3, 2)
    all_orders = path_law(InOrder(VERIFIERS[name]), laws, 3, 2)  # type: ignore[arg-type]
    np.testing.assert_allclose(once.output, all_orders.output, atol=EXACT)
    assert once.mean_accepted == pytest.approx(all_orders.mean_accepted, abs=1e-8)


def test_one_path_is_block_verification() -> None:
    for family in FAMILIES:
        laws = model(family, 3, 6)
        block = path_law(Block(), laws, 1, 2)
        for name in ("hierarchical", "traversal", "layer", "nested", "look-ahead"):
            law = path_law(VERIFIERS[name], laws, 1, 2)
            for prefix in prefixes(3, 2):
                assert law.accepted[prefix] == pytest.approx(block.accepted[prefix], abs=EXACT), (family, name)


def test_one_step_is_the_interval_solver() -> None:
    for family, seed in itertools.product(FAMILIES, range(2)):
        laws = model(family, 4, seed)
        token_wise = path_law(VERIFIERS["token-wise interval"], laws, 3, 1).mean_accepted
        for name in ("layer", "nested", "look-ahead"):
            # The token after a refusal may be a draft that was not picked: the output counts it, the rule does not.
            accepted = path_law(VERIFIERS[name], laws, 3, 1).mean_accepted
            assert accepted == pytest.approx(token_wise, abs=1e-11), (family, name, seed)


def test_accepted_prefixes_by_sampling() -> None:
    rng = np.random.default_rng(0)
    trials = 500
    for family, (name, verifier) in itertools.product(("tiny", "tied"), VERIFIERS.items()):
        laws = model(family, 3, 2)
        tree = laws.tree(laws.sample(3, 3, np.random.default_rng(0)))
        if name == "token-wise lp":
            continue  # 3 linear programs a trial
        counts = np.zeros_like(tree.target)
        for _ in range(trials):
            verdict = verifier.verify(tree, rng)
            assert verdict.accepted == len(tree.prefix(verdict.node))
            counts[verdict.node, verdict.token] += 1
        law = verifier.stop_law(tree)
        assert law.sum() == pytest.approx(1.0, abs=1e-8)
        expected = law * trials
        often = expected >= 5
        assert counts[law == 0].sum() == 0
        chi2 = ((counts - expected)[often] ** 2 / expected[often]).sum()
        freedom = often.sum()
        assert chi2 <= freedom + 5 * np.sqrt(2 * freedom) + 5, (name, family)


# --- negative controls: mistakes that the enumeration must see ----------------------------------------------------


class AllAlive(PickVerifier):
    """Tells block verification that K paths survive at every node, where only some do."""

    def __init__(self, tell_draft: bool) -> None:
        self.tell_draft = tell_draft

    def pick(self, tree: Tree, rng: np.random.Generator) -> Picked:
        raise NotImplementedError

    def picks(self, tree: Tree) -> tuple[Floats, list[Floats]]:
        nested = Nested(sigma=0.0)
        weights, _ = nested.picks(tree)
        told = []
        for nodes in tree.node:
            if self.tell_draft:
                told.append(tree.draft[nodes[:-1]])
            else:
                afresh = [
                    nested.along(tree.target[[v]], tree.draft[[v]], tree.token[[w]], Shape((tree.count,)))[0]
                    for v, w in itertools.pairwise(nodes)
                ]
                told.append(np.array(afresh))
        return weights, told


class TokenWiseResidual(Block):
    """Block acceptance with the residual of token-wise verification."""

    def stop_law(self, tree: Tree) -> Floats:
        law = np.zeros_like(tree.target)
        (weights, proposals), chance = self.picks(tree), 1.0
        assert weights[0] == 1
        nodes = tree.node[0]
        weight, stop = block_weights(tree.target[nodes], proposals[0], tree.token[nodes[1:]])
        for accepted in range(tree.length, -1, -1):
            law[nodes[accepted]] += (
                chance * stop[accepted] * residual_law(tree, 0, proposals[0], np.ones_like(weight), accepted)
            )
            chance *= 1 - stop[accepted]
        return law


class AlwaysAllDrafts(TokenWise):
    """Verifies the survivors as if all K paths had come this far, their tokens repeated."""

    def stop_law(self, tree: Tree) -> Floats:
        return super().stop_law(Repeating.with_laws(tree, tree.target, tree.draft))


class Repeating(Tree):
    """A tree that has K draws at every node."""

    def drafts(self, alive: Ints, level: int) -> Ints:
        return np.resize(super().drafts(alive, level), self.count)


@pytest.mark.parametrize(
    "wrong",
    [AllAlive(tell_draft=False), AllAlive(tell_draft=True), TokenWiseResidual(), AlwaysAllDrafts(remember=5000)],
    ids=["n = K at every level", "q in place of g", "token-wise residual", "token-wise with n = K"],
)
def test_mistakes_are_seen(wrong: PathVerifier) -> None:
    deviations = [path_law(wrong, model("tiny", 3, seed), 2, 2).deviation for seed in range(5)]
    assert max(deviations) > 1e-3


def test_large_models_are_refused() -> None:
    with pytest.raises(ProblemError, match="over 10 make 1000000000 trees, more than 1000000"):
        path_law(Block(), model("tiny", 10), 3, 3)
